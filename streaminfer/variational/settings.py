"""What a spec says of inference, as pure code takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from streaminfer.variational.steps import StepSize


@dataclass(frozen=True, slots=True)
class Inference:
    """How events become a posterior. What a method does not have among its options is None."""

    method: str
    minibatch: int
    linger_ms: int
    max_staleness: int
    snapshot_ms: int
    snapshot_events: int
    forget: Mapping[str, float] | None = None
    local_iterations: int | None = None
    step: StepSize | None = None
    population: int | None = None
    epochs: int | None = None

    @property
    def n_epochs(self) -> int:
        """How many passes over the data the posterior takes."""
        return self.epochs or 1

    @property
    def meaning(self) -> dict[str, Any]:
        """The options that change what an increment or a posterior means; only what is set."""
        said = {
            "forget": None if self.forget is None else dict(self.forget),
            "local_iterations": self.local_iterations,
            "step": None if self.step is None else asdict(self.step),
            "population": self.population,
            "epochs": self.n_epochs if self.n_epochs > 1 else None,
        }
        return {name: value for name, value in said.items() if value is not None}

    @property
    def by_time(self) -> bool:
        """Whether the times of events matter."""
        return self.forget is not None and not self.forget.keys().isdisjoint({"half_life_seconds", "window_seconds"})

    @property
    def windowed(self) -> bool:
        """Whether events leave the posterior altogether."""
        return self.forget is not None and not self.forget.keys().isdisjoint({"window_events", "window_seconds"})


@dataclass(frozen=True, slots=True)
class Reaction:
    """Forgetting after an alarm: everything held halves every `half_life_events`, for the next `for_events`."""

    half_life_events: float
    for_events: int


@dataclass(frozen=True, slots=True)
class Drift:
    """When there is an alarm, and what follows; None: nothing but the report."""

    events_per_false_alarm: float
    block_events: int
    react: Reaction | None = None


PLAIN: Final = Inference("svb", 256, 0, 0, 1, 1)
"""Streaming variational Bayes with nothing forgotten."""
