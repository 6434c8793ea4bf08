"""Forgetting: an event counts less the older it is, whatever order increments come in.

posterior = prior + sum of weight * statistics; the prior itself is never scaled. Weights are halved by a clock. Each
data partition has a clock that counts its events, or there is one clock for all that tells the newest event's time
(forward decay, Cormode et al. 2009). Neither depends on how partitions are interleaved or which worker read them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np

from streaminfer.models.model import Matrix, Model, Vector
from streaminfer.variational.forgetting.panes import Window
from streaminfer.variational.increment import Increment

FLOOR: Final = 2.0**-1000
"""A weight below this is 0: products of smaller ones would leave float64 one by one, a count before its mean."""


class Clock(NamedTuple):
    """What is held of the events of one clock, as weighted when the newest of them came.

    `newest` is that event's time in seconds since 1970, 0 for a clock that counts events; a window of positions has
    the frontier there. `window` holds the panes whose sum this is, in the hands of a master.
    """

    statistics: Vector
    n_effective: float
    newest: float = 0.0
    window: Window | None = None


Clocks = Mapping[int, Clock]


class Forgetting(Protocol):
    """How weights fall."""

    most_clocks: ClassVar[int]
    """The most that a published snapshot has."""

    @property
    def pane(self) -> int | None:
        """How many positions a pane has; None: positions mean nothing.

        The places of events below are positions if there are such panes, else times in seconds since 1970.
        """

    def weights(self, n: int, places: Vector | None) -> Vector | None:
        """The weights (n,) of a minibatch's n >= 1 events, in their order, when the newest of them has come.

        None: all count alike.
        """

    def dated(self, model: Model, increment: Increment, events: Matrix, places: Vector | None) -> Increment:
        """An increment of one event or more with what the fold must know of their places."""

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        """The clocks with an increment of one event or more; raises DomainError if it contradicts itself."""

    def passed(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        """The clocks when an increment has moved the frontier and no event of it is taken."""


@dataclass(frozen=True, slots=True)
class ByEvents:
    """Every partition has its own clock: a weight halves with every `half_life` further events of the partition."""

    half_life: float
    most_clocks: ClassVar[int] = 4096
    pane: ClassVar[int | None] = None

    def weights(self, n: int, places: Vector | None) -> Vector:  # noqa: ARG002 (others need the times)
        return halved(np.arange(n - 1, -1, -1) / self.half_life)

    def dated(self, model: Model, increment: Increment, events: Matrix, places: Vector | None) -> Increment:  # noqa: ARG002
        return increment

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        n, partition = increment.n_events, increment.provenance.partition
        # 1 + q + ... + q^(n-1), q = 2^(-1/half_life), without cancellation if q is near 1.
        rate = -math.log(2) / self.half_life
        change = Clock(increment.payload.statistics, math.expm1(n * rate) / math.expm1(rate))
        old = clocks.get(partition)
        aged = change if old is None else merged(model, decayed(model, old, n / self.half_life), change)
        return {**clocks, partition: aged}

    def passed(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:  # noqa: ARG002 (nothing ages)
        return clocks


@dataclass(frozen=True, slots=True)
class ByTime:
    """One clock for all: a weight halves with every `half_life` seconds between its event and the newest."""

    half_life: float
    most_clocks: ClassVar[int] = 1
    pane: ClassVar[int | None] = None

    def weights(self, n: int, places: Vector | None) -> Vector:  # noqa: ARG002 (as many as there are times)
        times = required(places)
        return halved((times.max() - times) / self.half_life)

    def dated(self, model: Model, increment: Increment, events: Matrix, places: Vector | None) -> Increment:  # noqa: ARG002
        times = required(places)
        n_effective, newest = float(self.weights(len(times), times).sum()), float(times.max())
        return replace(increment, payload=replace(increment.payload, n_effective=n_effective, newest=newest))

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        came, old = increment.payload, clocks.get(0)
        change = Clock(came.statistics, came.n_effective, came.newest)
        if old is None:
            return {0: change}
        newest = max(old.newest, change.newest)
        old, change = (decayed(model, c, (newest - c.newest) / self.half_life) for c in (old, change))
        return {0: merged(model, old, change)._replace(newest=newest)}

    def passed(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:  # noqa: ARG002 (no time passes)
        return clocks


def decayed(model: Model, clock: Clock, halvings: float) -> Clock:
    """The same events when their weights have halved N times."""
    if halvings == 0:
        return clock
    weight = math.exp2(-halvings)
    if weight * clock.n_effective < FLOOR:
        return clock._replace(statistics=model.empty(), n_effective=0.0)
    return clock._replace(statistics=model.scale(clock.statistics, weight), n_effective=weight * clock.n_effective)


def required(places: Vector | None) -> Vector:
    """The places of events, for a rule that depends on them."""
    if places is None:
        raise ValueError("this way to forget needs the places of events: their times, or their positions")
    return places


def total(model: Model, clocks: Clocks) -> Vector:
    """The statistics of all clocks together."""
    return reduce(model.merge, [clocks[index].statistics for index in sorted(clocks)], model.empty())


def merged(model: Model, a: Clock, b: Clock) -> Clock:
    """What is held of the events of both, which are weighted as of the same moment."""
    return a._replace(statistics=model.merge(a.statistics, b.statistics), n_effective=a.n_effective + b.n_effective)


def halved(halvings: Vector) -> Vector:
    """The weights of what has halved N times."""
    weights = np.exp2(-halvings)
    weights[weights < FLOOR] = 0.0
    return weights


UNEVEN: Final = 2.0
"""How many times the records of another a partition may have had, until its events are forgotten too fast beside."""


def unevenness(forget: Mapping[str, float] | None, positions: Mapping[int, int]) -> str | None:
    """What is wrong with a half life in events if partitions fill unevenly; None if nothing is.

    `positions` say how far each partition has come. Those without a record have nothing to forget, and before a half
    life has passed in one of them all events count about alike.
    """
    rule = None if forget is None else forget.get("half_life_events")
    filled = {index: at for index, at in positions.items() if at > 0}
    if rule is None or not filled:
        return None
    most, least = max(filled, key=filled.__getitem__), min(filled, key=filled.__getitem__)
    if filled[most] < rule or filled[most] <= UNEVEN * filled[least]:
        return None
    return (
        f"partitions fill unevenly: {most} is at {filled[most]:,} and {least} at {filled[least]:,}. By "
        "half_life_events each counts by itself, so events of the slow one keep their weight for longer; "
        "half_life_seconds counts by time"
    )
