"""Events of a snapshot from the log: a part of them held, the sums over all of them made on the way.

What is held is a uniform part without replacement: the events with the smallest hashes of their positions. So it is the
same in every process, and changes little from one snapshot to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.events import Events
from streaminfer.models.model import AnyModel, Matrix, Vector, conjugate, is_conjugate
from streaminfer.models.targets.density import Density
from streaminfer.runtime.monitoring.measuring.contained import Contained, Weighing
from streaminfer.runtime.reading.span_events import Removed, SpanEvents
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas

WAIT_S: Final = 1.0
"""Seconds that one poll may wait for records that are in the log."""
_MIX: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Part(NamedTuple):
    """Some events of one partition, in the order of the log, that all count."""

    partition: int
    events: Events
    hashes: NDArray[np.uint64]
    weights: Vector | None
    """As they are when the last of these events has come; None: 1."""
    before: float
    """What the weights of earlier events of the partition are multiplied by."""


def read(spec: Spec, bus: Bus, schemas: Schemas, contained: Contained, weighing: Weighing) -> Iterator[Part]:
    """The events part by part; raises Unknowable if the log does not have them, or has others."""
    reader = SpanEvents(spec, bus, contained.spans, schemas, None, contained.reached)
    n_events = 0
    try:
        while (found := reader.read(WAIT_S)) is not None:
            if not found.events.n:
                continue
            weights, before = weighing.weights(found.partition, found.events.n, found.times)
            n_events += found.events.n if weighing.cut is None or weights is None else int(np.count_nonzero(weights))
            yield Part(found.partition, found.events, hashes(found.partition, found.positions), weights, before)
    except Removed as error:
        raise Unknowable("Retention has removed events of the posterior from the log.", _RETENTION) from error
    finally:
        reader.close()
    if contained.n_events is not None and n_events != contained.n_events:
        raise Miscounted(n_events, contained.n_events)


_RETENTION: Final = "Keep events for longer, or wait until there is a newer snapshot to start from."


class Miscounted(Unknowable):
    """The log has another number of events than a snapshot says that it contains."""

    def __init__(self, found: int, said: int) -> None:
        super().__init__(
            f"The log has {found:,} events where the posterior says that it contains {said:,}.",
            "If retention has removed events, keep them for longer; else the posterior is not that of its log.",
        )
        self.found, self.said = found, said


def hashes(partition: int, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Of events (n,) by their places: those of one record follow each other. SplitMix64 (Steele et al. 2014)."""
    first = np.concatenate([[True], positions[1:] != positions[:-1]]) if len(positions) else np.zeros(0, dtype=bool)
    starts = np.flatnonzero(first)
    within = np.arange(len(positions)) - np.repeat(starts, np.diff([*starts, len(positions)]))
    mixed = np.zeros(len(positions), dtype=np.uint64)
    for number in (np.full(len(positions), partition), positions, within):
        mixed = _mixed(mixed + number.astype(np.uint64))
    return mixed


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * _MIX[0]
    z = (z ^ (z >> np.uint64(27))) * _MIX[1]
    return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Events that are held, and what all events sum to."""

    n: int
    """Events that count, held or not."""
    n_effective: float
    """The sum of their weights."""
    events: Matrix
    """The values of those that are held, (m, fields)."""
    rows: Matrix
    """What the target needs of them, (m, columns)."""
    weights: Vector | None
    """Their weights, (m,); None: 1."""
    gradient: Vector | None
    """The gradient of the log likelihood of all events at the anchor, (d,), if there is one."""
    statistics: Vector | None
    """Those of all events, if the model is conjugate."""

    @property
    def each(self) -> Vector:
        """The weights of those that are held, (m,)."""
        return np.ones(len(self.rows)) if self.weights is None else self.weights

    @property
    def whole(self) -> bool:
        """Whether all events are held."""
        return len(self.events) == self.n


class _Held:
    """The m events with the smallest hashes."""

    def __init__(self, most: int, weighing: Weighing) -> None:
        self._most, self._weighing = most, weighing
        self._parts: list[tuple[NDArray[np.uint64], Matrix, Matrix]] = []
        self._n = 0

    def add(self, part: Part, numbers: Matrix) -> None:
        """With each event its weight now, its partition, and how often weights there had halved."""
        n = len(numbers)
        weights = np.ones(n) if part.weights is None else part.weights
        halved = self._weighing.halvings.get(part.partition, 0.0)
        about = np.column_stack([weights, np.full(n, part.partition), np.full(n, halved)])
        self._parts.append((part.hashes, numbers.copy(), about))
        self._n += n
        if self._n > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        hashed, numbers, about = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        if len(hashed) > self._most:
            kept = np.sort(np.argpartition(hashed, self._most)[: self._most])
            hashed, numbers, about = hashed[kept], numbers[kept], about[kept]
        self._parts, self._n = [(hashed, numbers, about)], len(hashed)

    def done(self, fields: int) -> tuple[Matrix, Vector | None]:
        """Their values, and their weights now that all events have come."""
        if not self._parts:
            return np.empty((0, fields)), None
        self._cut()
        ((_, numbers, about),) = self._parts
        weights, partitions, halved = about.T
        ends = self._weighing.halvings
        if ends:
            at_end = np.array([ends.get(int(each), 0.0) for each in partitions])
            weights = weights * np.exp2(halved - at_end)
        return numbers, None if (weights == 1).all() else weights


def gather(
    model: AnyModel, target: Any, found: Iterator[Part], weighing: Weighing, most: int, anchor: Vector | None = None
) -> Gathered:
    """Goes over all events once and holds at most `most` of them. `anchor` (d,) is of the target."""
    held, sums = _Held(most, weighing), _Sums(model, target, anchor)
    n, n_effective = 0, dict[int, float]()
    for part, numbers in map(_counting, found):
        weights = part.weights
        if not len(numbers):
            continue
        n += len(numbers)
        gained = float(len(numbers) if weights is None else weights.sum())
        n_effective[part.partition] = part.before * n_effective.get(part.partition, 0.0) + gained
        held.add(part, numbers)
        sums.add(part, numbers)
    events, weights = held.done(len(model.fields))
    rows = np.asarray(target.rows(events), dtype=np.float64)
    return Gathered(n, sum(n_effective.values()), events, rows, weights, sums.gradient, sums.statistics())


def _counting(part: Part) -> tuple[Part, Matrix]:
    """The events that a window has not left behind, and their values."""
    numbers, weights = part.events.numbers, part.weights
    if weights is None or weights.all():
        return part, numbers
    inside = weights > 0
    kept = weights[inside]
    return part._replace(hashes=part.hashes[inside], weights=None if (kept == 1).all() else kept), numbers[inside]


class _Sums:
    """The gradient at an anchor and the statistics, by partition: their weights halve by themselves."""

    def __init__(self, model: AnyModel, target: Any, anchor: Vector | None) -> None:
        self._model, self._target, self._anchor = model, target, anchor
        self._gradients: dict[int, Vector] = {}
        self._statistics: dict[int, Vector] = {}

    def add(self, part: Part, numbers: Matrix) -> None:
        at, weights = part.partition, part.weights
        if self._anchor is not None:
            rows = np.asarray(self._target.rows(numbers), dtype=np.float64)
            gained = Density(self._target, rows, weights=weights).likelihood_gradient(self._anchor[None])[0]
            self._gradients[at] = part.before * self._gradients[at] + gained if at in self._gradients else gained
        if is_conjugate(self._model):
            model = conjugate(self._model)
            # the largest weight of statistics is 1
            top = 1.0 if weights is None else float(weights.max())
            scaled = model.statistics(numbers, None if weights is None else weights / top)
            new = scaled if top == 1 else model.scale(scaled, top)
            old = self._statistics.get(at)
            self._statistics[at] = new if old is None else model.merge(model.scale(old, part.before), new)

    @property
    def gradient(self) -> Vector | None:
        if self._anchor is None:
            return None
        return np.asarray(sum(self._gradients.values(), np.zeros(len(self._anchor))), dtype=np.float64)

    def statistics(self) -> Vector | None:
        if not is_conjugate(self._model):
            return None
        total = self._model.empty()
        for each in self._statistics.values():
            total = self._model.merge(total, each)
        return total


def newest_time(spec: Spec, bus: Bus, schemas: Schemas, contained: Contained) -> float:
    """The time of the newest event, by a pass of its own: a window of a sampler ends there."""
    reader, newest = SpanEvents(spec, bus, contained.spans, schemas, None, contained.reached), -np.inf
    try:
        while (found := reader.read(WAIT_S)) is not None:
            if found.times is not None and len(found.times):
                newest = max(newest, float(found.times.max()))
    except Removed as error:
        raise Unknowable("Retention has removed events of the posterior from the log.", _RETENTION) from error
    finally:
        reader.close()
    return newest
