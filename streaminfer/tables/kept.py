"""What a single posterior keeps beside its snapshot: the panes of a window, or the batches of memoized."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from streaminfer.models.model import DomainError, Model
from streaminfer.tables.table import Columns, Keeping, Kept, Place
from streaminfer.variational import tree
from streaminfer.variational.forgetting import rules
from streaminfer.variational.forgetting.decay import total
from streaminfer.variational.forgetting.windows import MOST_PANES, LastEvents, LastSeconds
from streaminfer.variational.increment import Pane, Panes
from streaminfer.variational.methods import memoized, method_of
from streaminfer.variational.settings import Inference
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.tree import Tree

MOST_CLOCKS: Final = 4096
MOST_BATCHES: Final = memoized.MOST_BATCHES + MOST_CLOCKS
"""What no later pass visits is one more of each partition."""
SAME: Final = 1e-6
"""How near the sum of what is kept must be to what its snapshot says: far above roundings."""


def keeping_of(model: Model, inference: Inference) -> Keeping | None:
    """What a single posterior keeps; None: nothing beside the snapshot."""
    if method_of(inference).keeps_batches:
        return KeptBatches(model)
    window = rules.window_of(inference.forget)
    return None if window is None else KeptPanes(model, window)


def passed(snapshot: Snapshot, partition: int) -> tuple[int | None, int]:
    """The positions [start, last) of a partition that a snapshot has batches of; no start if it knows nothing."""
    frontier = snapshot.frontier
    position = frontier.positions.get(partition, -1)
    last = max(position, frontier.ends.get(partition, -1)) if frontier.epoch else position
    return frontier.starts.get(partition), last


class _Stored:
    """What was put, by clock and index."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.panes: dict[int, dict[int, Pane]] = {}

    def put(self, kept: Kept) -> int:
        if kept.item is None or isinstance(kept.item, Columns):
            raise TypeError("a pane or batch of a single posterior has statistics")
        self._model.posterior(kept.item)
        self.panes.setdefault(kept.place.clock, {})[kept.place.at] = Pane(kept.n_events, kept.item)
        return int(kept.item.nbytes)


def _near(full: Snapshot, snapshot: Snapshot) -> Snapshot:
    """Raises DomainError if what is kept sums to something else than the snapshot."""
    has, said = full.payload.statistics, snapshot.payload.statistics
    scale = 1 + np.abs(said).max(initial=0.0)
    if not np.allclose(has, said, rtol=SAME, atol=SAME * scale):
        raise DomainError("they sum to other statistics than the snapshot's")
    return full


def _differences(clock: int, there: Panes, here: Panes) -> Iterator[Kept]:
    for index in there:
        if index not in here:
            yield Kept(Place(clock, index))
    for index, pane in here.items():
        if pane is not there.get(index):
            yield Kept(Place(clock, index), pane.n_events, pane.statistics)


class KeptPanes:
    """The panes of a window. See `table.Keeping`."""

    what, least, columns = "panes", 1, False
    most = 2 * MOST_PANES * MOST_CLOCKS  # within a commit there may be new panes before the old ones are gone

    def __init__(self, model: Model, rule: LastEvents | LastSeconds) -> None:
        self._model, self._rule, self._stored = model, rule, _Stored(model)

    def clear(self) -> None:
        self._stored = _Stored(self._model)

    def put(self, kept: Kept) -> int:
        return self._stored.put(kept)

    def whole(self, snapshot: Snapshot) -> Snapshot:
        clocks = self._rule.restored(self._model, snapshot, self._stored.panes)
        held = replace(snapshot.payload, clocks=clocks, statistics=total(self._model, clocks))
        full = replace(snapshot, payload=held)
        if full.n_effective != snapshot.n_effective:
            counts = f"they have {full.n_effective:,.15g} events and the snapshot says {snapshot.n_effective:,.15g}"
            raise DomainError(counts)
        return _near(full, snapshot)

    def changes(self, old: Snapshot, new: Snapshot) -> Iterator[Kept]:
        for index, clock in new.payload.clocks.items():
            if clock is not old.payload.clocks.get(index):
                yield from _differences(index, self._panes(old, index), self._panes(new, index))

    def find(self, snapshot: Snapshot, place: Place) -> Kept | None:
        pane = self._panes(snapshot, place.clock).get(place.at)
        return None if pane is None else Kept(place, pane.n_events, pane.statistics)

    def _panes(self, snapshot: Snapshot, clock: int) -> Panes:
        found = snapshot.payload.clocks.get(clock)
        return {} if found is None or found.window is None else found.window.panes

    def summary(self, snapshot: Snapshot) -> Snapshot:
        return self._rule.summary(snapshot)

    def published(self) -> None:
        """Nothing."""


class KeptBatches:
    """The batches of memoized, by partition and first position; none ever goes. See `table.Keeping`."""

    what, most, least, columns = "batches", MOST_BATCHES, 0, False

    def __init__(self, model: Model) -> None:
        self._model, self._stored = model, _Stored(model)

    def clear(self) -> None:
        self._stored = _Stored(self._model)

    def put(self, kept: Kept) -> int:
        return self._stored.put(kept)

    def whole(self, snapshot: Snapshot) -> Snapshot:
        stored, model = self._stored.panes, self._model
        for index, found in stored.items():
            start, last = passed(snapshot, index)
            if min(found) != start or max(found) >= last:
                raise DomainError(f"those of partition {index} are not of [{start}, {last})")
        full = memoized.with_batches(model, snapshot, {index: tree.of(model, found) for index, found in stored.items()})
        has, said = (full.payload.n_batches, full.n_events), (snapshot.payload.n_batches, snapshot.n_events)
        if has != said:
            raise DomainError(f"there are {has[0]} with {has[1]} events and the snapshot says {said[0]} with {said[1]}")
        return _near(full, snapshot)

    def changes(self, old: Snapshot, new: Snapshot) -> Iterator[Kept]:
        for index, batches in new.payload.batches.items():
            if batches is not (before := old.payload.batches.get(index, Tree())):
                yield from _differences(index, {}, tree.changes(before, batches))

    def find(self, snapshot: Snapshot, place: Place) -> Kept | None:
        batches = snapshot.payload.batches.get(place.clock, Tree())
        i = batches.find(place.at)
        if i is None:
            return None
        pane = batches.leaf(i)
        return Kept(place, pane.n_events, pane.statistics)

    def summary(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def published(self) -> None:
        """Nothing."""
