"""Keeps the panes of a window, or the batches of memoized, on the bus.

They are written with the snapshot that contains them, only those that have changed, and restored with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from streaminfer.bus.protocol import Bus, Output, Partition
from streaminfer.models.model import DomainError, Model
from streaminfer.runtime import names
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.variational import memoized, rules, tree
from streaminfer.variational.forgetting import total
from streaminfer.variational.increment import Panes
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.tree import Tree
from streaminfer.variational.windows import MOST_PANES, LastEvents, LastSeconds
from streaminfer.wire import panes
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.panes import Place, Shelf

MOST_CLOCKS: Final = 4096
MOST_BATCHES: Final = memoized.MOST_BATCHES + MOST_CLOCKS
"""What no later pass visits is one more of each partition."""


def misfit(partition: Partition, what: str, snapshot: Snapshot, detail: str) -> Fatal:
    """The error of a topic that has not what a snapshot needs."""
    return Fatal(
        f"{partition}: the {what} there are not those of the posterior's version {snapshot.version}: {detail}. Going "
        "on would forget events, or count some that have no place in it: run the version that wrote them (with the "
        "schema registry that it used), or give the spec a new name."
    )


def passed(snapshot: Snapshot, partition: int) -> tuple[int | None, int]:
    """The positions [start, last) of a partition that a snapshot has batches of; no start where it knows nothing."""
    frontier = snapshot.frontier.get(partition, -1)
    last = max(frontier, snapshot.ends.get(partition, -1)) if snapshot.epoch else frontier
    return snapshot.starts.get(partition), last


class Change(NamedTuple):
    """What a clock had, and has now."""

    clock: int
    there: Panes
    here: Panes


class Kept(Protocol):
    """What of a snapshot is kept on the topic."""

    what: str
    """A word for many of them."""
    most: int
    """How many there may be at a time."""
    least: int
    """How many events each has at least."""

    def whole(self, model: Model, snapshot: Snapshot, stored: Mapping[int, Panes]) -> Snapshot:
        """A snapshot as it was read, with what is stored; raises DomainError where that cannot be its own."""

    def summary(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as it is published."""

    def changes(self, old: Snapshot, new: Snapshot) -> Iterator[Change]:
        """Where two snapshots differ."""


class Windowed:
    """The panes of a window."""

    what = "panes"
    most = 2 * MOST_PANES * MOST_CLOCKS  # within a commit there may be new panes before the old ones are gone
    least = 1

    def __init__(self, rule: LastEvents | LastSeconds) -> None:
        self._rule = rule

    def whole(self, model: Model, snapshot: Snapshot, stored: Mapping[int, Panes]) -> Snapshot:
        clocks = self._rule.restored(model, snapshot, stored)
        full = replace(snapshot, clocks=clocks, statistics=total(model, clocks))
        if full.n_effective != snapshot.n_effective:
            counts = f"they have {full.n_effective:,.15g} events and the snapshot says {snapshot.n_effective:,.15g}"
            raise DomainError(counts)
        return full

    def summary(self, snapshot: Snapshot) -> Snapshot:
        return self._rule.summary(snapshot)

    def changes(self, old: Snapshot, new: Snapshot) -> Iterator[Change]:
        for index, clock in new.clocks.items():
            if clock is not (before := old.clocks.get(index)):
                there = before.window.panes if before is not None and before.window is not None else {}
                yield Change(index, there, clock.window.panes if clock.window is not None else {})


class Batches:
    """The batches of memoized, by partition and where they begin; none ever goes."""

    what = "batches"
    most = MOST_BATCHES
    least = 0

    def whole(self, model: Model, snapshot: Snapshot, stored: Mapping[int, Panes]) -> Snapshot:
        for index, found in stored.items():
            start, last = passed(snapshot, index)
            if min(found) != start or max(found) >= last:
                raise DomainError(f"those of partition {index} are not of [{start}, {last})")
        full = memoized.with_batches(model, snapshot, {index: tree.of(model, found) for index, found in stored.items()})
        has, said = (full.n_batches, full.n_events), (snapshot.n_batches, snapshot.n_events)
        if has != said:
            raise DomainError(f"there are {has[0]} with {has[1]} events and the snapshot says {said[0]} with {said[1]}")
        return full

    def summary(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def changes(self, old: Snapshot, new: Snapshot) -> Iterator[Change]:
        for index, batches in new.batches.items():
            if batches is not (before := old.batches.get(index, Tree())):
                yield Change(index, {}, tree.changes(before, batches))


def kept_of(spec: Spec) -> Kept | None:
    """What a spec's masters keep; None: nothing beside the snapshot, or as `WordBatchStore` does."""
    if spec.words is not None:
        return None
    if spec.inference.method == "memoized":
        return Batches()
    window = rules.window_of(spec.inference.forget)
    return None if window is None else Windowed(window)


class PaneStore:
    """What one shard keeps."""

    def __init__(self, spec: Spec, bus: Bus, shard: int, kept: Kept, schemas: Schemas) -> None:
        self._spec, self._bus, self._kept, self._schemas = spec, bus, kept, schemas
        self.partition = Partition(names.topic(spec, panes.TOPIC), shard)

    def restored(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as it was read, with what belongs to it; Fatal where that on the bus does not."""
        model = self._spec.model
        try:
            stored = self._read().panes(snapshot.version)
            for found in stored.values():
                for pane in found.values():
                    model.posterior(pane.statistics)
            return self._kept.whole(model, snapshot, stored)
        except (WireError, DomainError) as error:
            raise misfit(self.partition, self._kept.what, snapshot, str(error)) from error

    def summary(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as it is published."""
        return self._kept.summary(snapshot)

    def changes(self, old: Snapshot, new: Snapshot) -> list[Output]:
        """What must be written so that what is on the bus, which is of `old`, is of `new`."""
        outputs: list[Output] = []
        for clock, there, here in self._kept.changes(old, new):
            outputs += self._dropped(clock, there, here) + self._changed(clock, there, here, new.version)
        return outputs

    def _changed(self, clock: int, there: Panes, here: Panes, version: int) -> list[Output]:
        most = self._bus.max_record_bytes
        records = [
            record
            for index, pane in here.items()
            if pane is not there.get(index)
            for record in panes.encode(Place(clock, index), pane, self._spec.fingerprint, version, most, self._schemas)
        ]
        return [Output(self.partition.topic, data, key, self.partition.index) for key, data in records]

    def _dropped(self, clock: int, there: Panes, here: Panes) -> list[Output]:
        places = [Place(clock, index) for index in there if index not in here]
        size, most = self._spec.model.size, self._bus.max_record_bytes
        keys = [key for place in places for key in panes.keys(place, size, most)]
        return [Output(self.partition.topic, None, key, self.partition.index) for key in keys]

    def _read(self) -> Shelf:
        """All of the topic, as it is now: nobody else can write to it any more."""
        size = self._spec.model.size
        records = self._kept.most * len(panes.keys(Place(0, 0), size, self._bus.max_record_bytes))
        shelf = Shelf(self._spec.fingerprint, size, records, self._schemas, self._kept.least)
        topic, index = self.partition
        end = self._bus.ends(topic)[index]
        with self._bus.reader({self.partition: self._bus.starts(topic)[index]}) as reader:
            while reader.position(self.partition) < end:
                for part in reader.poll(1.0).slices:
                    for record in part.records:
                        shelf.add(record.key, value_of(record))
        return shelf
