"""Keeps the batches of memoized inference of words on the bus: written with the snapshot that contains them."""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.bus.protocol import Bus, Output, Partition, Reader
from streaminfer.models.lda import Lda
from streaminfer.runtime import names
from streaminfer.runtime.pane_store import MOST_BATCHES, misfit
from streaminfer.spec import Spec
from streaminfer.variational.arena import NONE, Arena
from streaminfer.variational.increment import ByKey
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.word_batches import Batch, Batches, Place
from streaminfer.wire import key_columns, panes
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.panes import Shelf, Stored

STEP: Final = 100
"""Records read in one step of a restore, of up to a megabyte each."""


class WordBatchStore:
    """What one shard keeps; made anew for every restore, after its predecessors were fenced."""

    def __init__(self, spec: Spec, model: Lda, bus: Bus, shard: int, schemas: Schemas) -> None:
        self._spec, self._model, self._bus, self._schemas = spec, model, bus, schemas
        self._partition = Partition(names.topic(spec, panes.TOPIC), shard)
        largest = key_columns.MAX_BYTES
        parts = -(-largest // (bus.max_record_bytes - panes.ENVELOPE))
        self._shelf = Shelf(spec.fingerprint, largest // 8, MOST_BATCHES * parts, schemas, least=0)
        topic, index = self._partition
        self._end = bus.ends(topic)[index]
        self._reader: Reader | None = bus.reader({self._partition: bus.starts(topic)[index]})

    def read(self, snapshot: Snapshot) -> bool:
        """Reads some of what there is, and whether that was all."""
        if self._reader is None:
            return True
        if self._reader.position(self._partition) >= self._end:
            self.close()
            return True
        try:
            for part in self._reader.poll(1.0, STEP).slices:
                for record in part.records:
                    if record.offset < self._end:
                        self._shelf.add(record.key, record.value)
        except WireError as error:
            raise misfit(self._partition, "batches", snapshot, str(error)) from error
        return False

    def restored(self, arena: Arena, snapshot: Snapshot) -> Batches:
        """The batches of a snapshot and its rows; Fatal where those on the bus are not."""
        found = Batches()
        try:
            for stored in self._shelf.whole(snapshot.version):
                found.put(Place(*stored.place), self._batch(arena, stored))
        except WireError as error:
            raise misfit(self._partition, "batches", snapshot, str(error)) from error
        if len(found) != snapshot.n_batches:
            counts = f"there are {len(found)} and the snapshot says {snapshot.n_batches}"
            raise misfit(self._partition, "batches", snapshot, counts)
        found.changed.clear()
        return found

    def _batch(self, arena: Arena, stored: Stored) -> Batch:
        keys, statistics = key_columns.unpack(
            b"".join(stored.pieces), self._model.size, False, stored.n_events, words=True
        )
        rows = arena.firsts(keys.labels)
        if (rows == NONE).any() or not self._model.proper(statistics).all():
            raise BadValue(f"the batch from {stored.place.pane} on has words that no row is of, or no statistics")
        return Batch(stored.n_events, rows, keys.counts, statistics)

    def outputs(self, batches: Batches, arena: Arena, version: int) -> list[Output]:
        """The records of those that have changed since the last snapshot."""
        topic, index = self._partition
        return [
            Output(topic, data, key, index)
            for place in sorted(batches.changed)
            for key, data in self._encoded(place, batches.get(place), arena, version)
        ]

    def _encoded(self, place: Place, batch: Batch | None, arena: Arena, version: int) -> list[tuple[bytes, bytes]]:
        if batch is None:
            raise KeyError(place)
        nothing = np.zeros(len(batch.rows))
        keys = ByKey(
            [arena.labels[row] for row in batch.rows.tolist()], batch.counts, nothing, nothing, nothing, nothing
        )
        data = key_columns.pack(keys, batch.statistics, timed=False)
        most, where = self._bus.max_record_bytes, panes.Place(*place)
        return panes.encode_bytes(where, batch.n_events, data, self._spec.fingerprint, version, most, self._schemas)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
