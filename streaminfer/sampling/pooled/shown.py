"""What a snapshot of a sampled posterior says beside its moments and draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streaminfer.models.model import Matrix
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.states import NO_SEGMENT
from streaminfer.sampling.units import Spans

NOTHING: Final = NO_SEGMENT
"""The number of the segment that is shown before any is."""


class Fixed(NamedTuple):
    """The newest segment of a subposterior. Chains begin with it when they see it here."""

    subposterior: int
    number: int
    spans: Spans
    fixed_at: int
    """Milliseconds since 1970, by the master's clock."""
    cut_off: float | None = None
    """In a window of time, when its events begin, in seconds since 1970; the same for all subposteriors."""


class Part(NamedTuple):
    """What is shown of a subposterior."""

    subposterior: int
    segment: int
    n_events: int
    n_draws: int
    n_effective: float
    """Effective draws."""
    left_out: bool = False


class ChainShown(NamedTuple):
    """How far a chain is: `read_to` is the master's position in its draws, `n_retained` of the draws here are its."""

    unit: int
    phase: str
    step: int
    read_to: int
    n_retained: int


@dataclass(frozen=True, slots=True)
class Shown:
    """Which draws a snapshot is made of, and what is under way. Numbers are of the segment that is shown."""

    segments: tuple[Fixed, ...] = ()
    segment: int = NOTHING
    complete: bool = False
    """Whether all draws of the segment are in; before that the snapshot is made of the last half of them."""
    cut: bool = False
    """Whether retention has removed events of the newest segment before all draws were made."""
    n_draws: int = 0
    size: float = 0.0
    """Of a step."""
    noise: float = 0.0
    """The variance of gradients in whitened coordinates."""
    acceptance: float | None = None
    """The part of proposals that was accepted."""
    fraction: float | None = None
    """Events that a step reads, as a part of all."""
    counters: Counters = field(default_factory=Counters)
    n_scored: int = 0
    """Events of the score."""
    subposteriors: tuple[Part, ...] = ()
    chains: tuple[ChainShown, ...] = ()

    @property
    def n_effective_draws(self) -> float:
        return sum(part.n_effective for part in self.subposteriors)


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """What a snapshot has beside the statistics of draws (see `pooling.Statistics`): retained draws (m, D)."""

    draws: Matrix
    shown: Shown = field(default_factory=Shown)
