"""What an alarm does to the posterior: for a while it forgets faster.

While a reaction lasts, all that is held is decayed by 2^(-n / half_life) before an increment of n events is added. That
comes on top of any other forgetting, and never touches the prior. It follows the order of increments in the log, as the
alarm does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from streaminfer.models.model import Matrix, Model, Vector
from streaminfer.variational.forgetting import decay, rules
from streaminfer.variational.forgetting.decay import Clock, Clocks, Forgetting, decayed, merged
from streaminfer.variational.increment import Increment
from streaminfer.variational.settings import Drift, Inference, Reaction


@dataclass(frozen=True, slots=True)
class Alike:
    """One clock that no event moves: all count alike, but for what a reaction takes away."""

    most_clocks: ClassVar[int] = 1
    pane: ClassVar[int | None] = None

    def weights(self, n: int, places: Vector | None) -> None:  # noqa: ARG002 (all count alike)
        return None

    def dated(self, model: Model, increment: Increment, events: Matrix, places: Vector | None) -> Increment:  # noqa: ARG002
        return increment

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        change = Clock(increment.payload.statistics, increment.n_events)
        return {0: merged(model, clocks[0], change) if clocks else change}

    def passed(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:  # noqa: ARG002 (nothing moves)
        return clocks


@dataclass(frozen=True, slots=True)
class Hastened:
    """Another rule while a reaction lasts, for `left` >= 1 events more."""

    rule: Forgetting
    half_life: float
    left: int
    most_clocks: ClassVar[int] = decay.ByEvents.most_clocks

    @property
    def pane(self) -> int | None:
        return self.rule.pane

    def weights(self, n: int, places: Vector | None) -> Vector | None:
        return self.rule.weights(n, places)

    def dated(self, model: Model, increment: Increment, events: Matrix, places: Vector | None) -> Increment:
        return self.rule.dated(model, increment, events, places)

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        halvings = min(increment.n_events, self.left) / self.half_life
        return self.rule.fold(model, {i: decayed(model, clock, halvings) for i, clock in clocks.items()}, increment)

    def passed(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        return self.rule.passed(model, clocks, increment)


def rule_of(inference: Inference, watch: Drift | None) -> Forgetting | None:
    """How the master forgets before any alarm; if it may react to one, clocks are kept in any case."""
    reacts = watch is not None and watch.react is not None
    return rules.of(inference.forget) or (Alike() if reacts else None)


def hastened(rule: Forgetting, react: Reaction, n_since: int) -> Forgetting:
    """The rule when there were `n_since` events after an alarm."""
    left = react.for_events - n_since
    return Hastened(rule, react.half_life_events, left) if left > 0 else rule
