"""All that a spec says about a sampler, filled in."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepRule:
    """How large a step is: by its bias, by its acceptance, or size (1 + t / after)^-power, at least floor."""

    bias: float | None = None
    size: float | None = None
    after: float = 1.0
    power: float = 0.0
    floor: float = 0.0
    accept: float | None = None


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
    control_variates: bool | None
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

    @property
    def n_units(self) -> int:
        """How many chains there are in all subposteriors together."""
        return self.subposteriors * self.chains
