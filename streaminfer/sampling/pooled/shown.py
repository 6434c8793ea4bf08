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
    """Whether the posterior is made without it and its events."""
    why: str = ""
    """What it lacks; empty if it is combined with the others."""
    steps: tuple[int, ...] = ()
    """By chain, the step up to which its draws are used."""


class Combination(NamedTuple):
    """How the draws of subposteriors became those of one posterior."""

    round: int
    """Its random numbers follow from the seed and this."""
    by: str
    weights: str | None = None
    corrected: bool = False
    """Whether the exact density has corrected it."""
    n_proposals: int = 0
    """Parameter vectors whose density was asked for."""
    k_hat: float | None = None
    """The shape of the tail of importance weights."""
    threshold: float | None = None
    """Above it, nothing is corrected."""
    log_evidence: float | None = None
    log_evidence_error: float | None = None
    """Its standard error."""
    ambiguous: float = 0.0
    """The part of draws whose components could be matched in two ways."""
    warnings: tuple[str, ...] = ()


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
    combined: Combination | None = None
    """None if the chains of one target were pooled."""

    @property
    def n_effective_draws(self) -> float:
        """Of pooled chains those of all; a combination is not worth more than the poorest of what it is made of."""
        if self.combined is None:
            return sum(part.n_effective for part in self.subposteriors)
        return min((part.n_effective for part in self.subposteriors if not part.why), default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """What a snapshot has beside the statistics of draws (see `pooling.Statistics`): retained draws (m, D)."""

    draws: Matrix
    shown: Shown = field(default_factory=Shown)
