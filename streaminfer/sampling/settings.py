"""All that a spec says about a sampler, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

_SIZES: Final = ("size", "after", "power", "floor")
_WITHOUT_MEANING: Final = frozenset({"method", "chains", "draws", "thin", "warmup", "segment", "combine"})
"""How many draws there are, of how many events, and what is made of them: a draw does not depend on it."""


@dataclass(frozen=True, slots=True)
class StepRule:
    """How large a step is: by its bias, by its acceptance, or size (1 + t / after)^-power, at least floor."""

    bias: float | None = None
    size: float | None = None
    after: float = 1.0
    power: float = 0.0
    floor: float = 0.0
    accept: float | None = None

    @property
    def meaning(self) -> dict[str, float]:
        """What decides on sizes."""
        names = ("bias",) if self.bias is not None else ("accept",) if self.accept is not None else _SIZES
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Stopping:
    """When a decision has read enough events; `error` is the chance of a mistake that it may have."""

    rule: str
    """t, hoeffding, bernstein or bernstein_serfling."""
    error: float = 0.01
    growth: float = 2.0
    """How many times as many events are known after the next batch; 1: batches are all alike."""
    order: int | None = None
    """Of the expansion that corrected steps are judged by; of subsampled_mh `control_variates` has it."""


@dataclass(frozen=True, slots=True)
class Combine:
    """How the draws of several subposteriors become one posterior."""

    by: str
    weights: str | None
    """Of an average: full, diagonal or equal."""
    bandwidth: float | None
    """Of kernels, in posterior sds; None: the method's own."""
    correct: str
    """importance, or none."""
    draws: int
    """In a snapshot."""
    window: int
    """Newest draws that are held of each subposterior."""
    missing: str
    """wait, or leave_out."""
    missing_seconds: float


@dataclass(frozen=True, slots=True)
class BoundRule:
    """The lower bounds of flymc, and how brightness changes."""

    tune: str
    """mode: bounds touch at the margins of the mode; none: all at the same margin."""
    at: float | None
    """That margin; None if bounds touch at the mode."""
    update: str
    """implicit, or explicit."""
    fraction: float | None
    """Of the events that a step looks at; None: chosen in the set-up."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a sampler; what its method does not have is None."""

    method: str
    seed: int
    chains: int
    draws: int
    thin: int | None
    warmup: int | None
    segment: Mapping[str, float]
    """When the next segment begins: exactly one of growth, events, seconds."""
    subposteriors: int
    minibatch: int | None
    source: str | None
    """segment, or stream."""
    batches: str | None
    """random, or shuffled."""
    start: str
    """mode, or prior."""
    step: StepRule | None
    """None for gibbs only."""
    precondition: str | None
    """mode, rms or none."""
    control_variates: bool | int | None
    """Of gradients whether they are used; of decisions on subsets the order of expansions, 0 to 2."""
    friction: float | None
    noise: float | None
    adapt: str | None
    """warmup, always or never."""
    scan: str | None
    """systematic, or random."""
    population: int | None
    """N of `source: stream`; None: the events seen so far."""
    transition: str | None
    """euler, or cir."""
    test: Stopping | None
    """Of subsampled_mh."""
    correct: Stopping | None
    """Of sgld with a Metropolis correction."""
    chi: float | None
    combine: Combine | None
    """None with one subposterior: its chains are pooled."""
    proposal: str | None = None
    """random_walk, or langevin."""
    bound: BoundRule | None = None

    @property
    def order(self) -> int | None:
        """That of the expansion by which decisions on subsets are made; None if there are none."""
        if self.correct is not None:
            return self.correct.order or 0
        return None if isinstance(self.control_variates, bool) else self.control_variates

    @property
    def stopping(self) -> Stopping | None:
        """When decisions on subsets have read enough; None if there are none, or if they are exact."""
        return self.correct or self.test

    @property
    def n_units(self) -> int:
        """How many chains there are in all subposteriors together."""
        return self.subposteriors * self.chains

    @property
    def meaning(self) -> dict[str, Any]:
        """The options that change what a draw means; only what is set."""
        said = {**asdict(self), "step": None if self.step is None else self.step.meaning}
        return {name: value for name, value in said.items() if name not in _WITHOUT_MEANING and value is not None}
