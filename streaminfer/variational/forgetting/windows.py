"""Windows: an event counts once while it is in the window, then not at all.

A window consists of whole panes. 64 panes make up its span, so it is at most a 64th longer. Its begin depends only on a
partition's frontier, or on the newest event of all: not on minibatches or their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from streaminfer.models.model import DomainError, Matrix, Model, Vector, conjugate
from streaminfer.variational.forgetting import panes
from streaminfer.variational.forgetting.decay import Clock, Clocks, required
from streaminfer.variational.increment import Increment, Pane, Panes
from streaminfer.variational.snapshot import Snapshot

PANES: Final = 64
"""Panes of a window's span. Another number would make other panes: stored ones would no longer fit."""
MOST_PANES: Final = PANES + 2
"""A window that begins inside a pane has one more; and a boundary may be rounded to the other side."""


@dataclass(frozen=True, slots=True)
class LastEvents:
    """The events at the last `span` positions of every partition before its frontier, rounded up to whole panes.

    Every partition has its clock, at its frontier. Pane i is of the positions from i * pane on.
    """

    span: float
    most_clocks: ClassVar[int] = 1

    @property
    def pane(self) -> int:
        return math.ceil(self.span / PANES)

    def weights(self, n: int, places: Vector | None) -> Vector | None:  # noqa: ARG002 (all count alike)
        return None

    def dated(self, model: Model, increment: Increment, events: Matrix, places: Vector | None) -> Increment:
        return _apart(model, increment, events, required(places) // self.pane, self.oldest(increment.provenance.end))

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        begin, end, gained = increment.provenance.begin, increment.provenance.end, increment.payload.panes
        if not all(begin // self.pane <= index <= (end - 1) // self.pane for index in gained):
            raise DomainError(f"an increment of [{begin}, {end}) has other panes")
        return self._moved(model, clocks, increment, gained)

    def passed(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        return self._moved(model, clocks, increment, {})

    def restored(self, model: Model, snapshot: Snapshot, stored: Mapping[int, Panes]) -> Clocks:
        """A clock for each partition, from its stored panes; raises DomainError if they are not the snapshot's."""
        _check_known(stored, snapshot.frontier.positions)
        clocks = {}
        for partition, frontier in snapshot.frontier.positions.items():
            found = stored.get(partition, {})
            _check_live(found, self.oldest(frontier), (frontier - 1) // self.pane)
            clocks[partition] = _clock(model, panes.of(model, found), float(frontier))
        return clocks

    def summary(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as it is published: with one clock for all, and no panes."""
        one = Clock(snapshot.payload.statistics, snapshot.n_effective)
        return replace(snapshot, payload=replace(snapshot.payload, clocks={0: one}))

    def oldest(self, frontier: int) -> int:
        """The pane that the window of a partition begins in."""
        return (frontier - int(self.span)) // self.pane

    def _moved(self, model: Model, clocks: Clocks, increment: Increment, gained: Panes) -> Clocks:
        partition, end = increment.provenance.partition, increment.provenance.end
        moved = panes.moved(model, _window(model, clocks, partition), gained, self.oldest(end))
        return {**clocks, partition: _clock(model, moved, float(end))}


@dataclass(frozen=True, slots=True)
class LastSeconds:
    """The events of the last `span` seconds up to the newest of all, and of the pane they begin in.

    There is one clock. Pane i is of the times from i * width on; late events go into the pane of their time.
    """

    span: float
    most_clocks: ClassVar[int] = 1
    pane: ClassVar[int | None] = None

    @property
    def width(self) -> float:
        return self.span / PANES

    def weights(self, n: int, places: Vector | None) -> Vector | None:  # noqa: ARG002 (all count alike)
        return None

    def dated(self, model: Model, increment: Increment, events: Matrix, places: Vector | None) -> Increment:
        times = required(places)
        newest = float(times.max())
        apart = _apart(model, increment, events, np.floor(times / self.width), self.oldest(newest))
        return replace(apart, payload=replace(apart.payload, newest=newest))

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        came = increment.payload
        if max(came.panes, default=None) != self._index(came.newest):
            raise DomainError("the newest pane of an increment is not that of its newest event")
        newest = max([came.newest, *(clock.newest for clock in clocks.values())])
        window = panes.moved(model, _window(model, clocks, 0), came.panes, self.oldest(newest))
        return {0: _clock(model, window, newest)}

    def passed(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:  # noqa: ARG002 (no time passes)
        return clocks

    def restored(self, model: Model, snapshot: Snapshot, stored: Mapping[int, Panes]) -> Clocks:
        """The clock from its stored panes; raises DomainError if they are not the snapshot's."""
        _check_known(stored, snapshot.payload.clocks)
        clocks = {}
        for index, clock in snapshot.payload.clocks.items():
            found = stored.get(index, {})
            _check_live(found, self.oldest(clock.newest), self._index(clock.newest))
            clocks[index] = _clock(model, panes.of(model, found), clock.newest)
        return clocks

    def summary(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as it is published; the panes are not written there."""
        return snapshot

    def _index(self, time: float) -> int:
        return math.floor(time / self.width)

    def oldest(self, newest: float) -> int:
        """The pane that the window begins in, if the newest event is of this time."""
        return self._index(newest - self.span)


def _apart(model: Model, increment: Increment, events: Matrix, indices: Vector, oldest: int) -> Increment:
    """The increment with the statistics of its events by the index of their pane, from the pane `oldest` on."""
    if indices[0] >= oldest and (indices == indices[0]).all():
        gained = {int(indices[0]): Pane(len(events), increment.payload.statistics)}
    else:
        parts = {int(index): events[indices == index] for index in np.unique(indices[indices >= oldest])}
        gained = {index: Pane(len(part), conjugate(model).statistics(part)) for index, part in parts.items()}
    payload = replace(increment.payload, statistics=model.empty(), panes=gained)
    return replace(increment, payload=payload)


def _window(model: Model, clocks: Clocks, index: int) -> panes.Window:
    clock = clocks.get(index)
    return panes.of(model, {}) if clock is None or clock.window is None else clock.window


def _clock(model: Model, window: panes.Window, newest: float) -> Clock:
    return Clock(panes.total(model, window), float(window.n_events), newest, window)


def _check_known(stored: Mapping[int, Panes], known: Mapping[int, object]) -> None:
    for index in stored:
        if index not in known:
            raise DomainError(f"there are panes of a clock {index} that the snapshot does not have")


def _check_live(found: Panes, oldest: int, newest: int) -> None:
    for index in found:
        if not oldest <= index <= newest:
            raise DomainError(f"pane {index} is outside the window from pane {oldest} to {newest}")
