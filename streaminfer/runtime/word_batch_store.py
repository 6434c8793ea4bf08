"""Keeps the batches of memoized inference of words on the bus: written with the snapshot that contains them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from streaminfer.bus.protocol import Bus, Output, Partition, Reader
from streaminfer.models.lda import Lda
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.pane_store import MOST_BATCHES, misfit, passed
from streaminfer.spec import Spec
from streaminfer.variational import words
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
STEP_BYTES: Final = 32 << 20
"""Bytes of batches that are unpacked in one: all of them may take longer than a member may be silent."""
SAME: Final = 1e-9


class WordBatchStore:
    """What one shard keeps; made anew for every restore, after its predecessors were fenced."""

    def __init__(self, spec: Spec, model: Lda, bus: Bus, shard: int, schemas: Schemas) -> None:
        self._spec, self._model, self._bus, self._schemas = spec, model, bus, schemas
        self._partition = Partition(names.topic(spec, panes.TOPIC), shard)
        largest = key_columns.MAX_BYTES
        parts = -(-largest // (bus.max_record_bytes - panes.ENVELOPE))
        self._shelf: Shelf | None = Shelf(spec.fingerprint, largest // 8, MOST_BATCHES * parts, schemas, least=0)
        self._whole: Iterator[Stored] | None = None
        self._found = Batches()
        topic, index = self._partition
        self._end = bus.ends(topic)[index]
        self._reader: Reader | None = bus.reader({self._partition: bus.starts(topic)[index]})

    def restored(self, arena: Arena, snapshot: Snapshot) -> Batches | None:
        """The batches of a snapshot and its rows; each call goes on, None until all are there.

        Fatal where those on the bus are not the snapshot's.
        """
        try:
            done = self._read() and self._unpack(arena, snapshot)
            if done:
                self._check(snapshot)
        except (WireError, DomainError) as error:
            raise misfit(self._partition, "batches", snapshot, str(error)) from error
        if not done:
            return None
        self._shelf = self._whole = None
        self._found.changed.clear()
        return self._found

    def _read(self) -> bool:
        """Reads some of what there is, and whether that was all."""
        if self._reader is None or self._shelf is None:
            return True
        if self._reader.position(self._partition) >= self._end:
            self.close()
            return True
        for part in self._reader.poll(1.0, STEP).slices:
            for record in part.records:
                if record.offset < self._end:
                    self._shelf.add(record.key, value_of(record))
        return False

    def _unpack(self, arena: Arena, snapshot: Snapshot) -> bool:
        """Makes batches of some of what was read, and whether that was all."""
        if self._whole is None and self._shelf is not None:
            self._whole = self._shelf.whole(snapshot.version)
        n_bytes = 0
        for stored in self._whole or ():
            batch = self._batch(arena, stored)
            self._found.put(Place(*stored.place), batch)
            n_bytes += batch.n_bytes
            if n_bytes >= STEP_BYTES:
                return False
        return True

    def _batch(self, arena: Arena, stored: Stored) -> Batch:
        data, n_events = b"".join(stored.pieces), stored.n_events
        keys, statistics = key_columns.unpack(data, self._model.size, False, n_events, words=True)
        rows = arena.firsts(keys.labels)
        if (rows == NONE).any() or not self._model.proper(statistics).all():
            raise BadValue(f"the batch from {stored.place.pane} on has words that no row is of, or no statistics")
        return Batch(n_events, rows, keys.counts.copy(), statistics)

    def _check(self, snapshot: Snapshot) -> None:
        """Raises DomainError where batches are not those of a snapshot, as far as that tells."""
        if len(self._found) != snapshot.n_batches:
            raise DomainError(f"there are {len(self._found)} and the snapshot says {snapshot.n_batches}")
        for place, _ in self._found:
            start, last = passed(snapshot, place.partition)
            if start is None or not start <= place.begin < last:
                raise DomainError(
                    f"one of partition {place.partition} begins at {place.begin}, not in [{start}, {last})"
                )
        n_events = sum(batch.n_events for _, batch in self._found)
        if n_events > snapshot.n_events:
            raise DomainError(f"they have {n_events} events and the snapshot says {snapshot.n_events}")
        sums, said = self._found.sums(self._model.size), words.head_of(self._model, snapshot.statistics).sums
        if n_events == snapshot.n_events and (np.abs(sums - said) > SAME * (1 + said.sum())).any():
            raise DomainError(f"they sum to {sums.sum():,.15g} words and the snapshot says {said.sum():,.15g}")

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
        nothing, labels = np.zeros(len(batch.rows)), [arena.labels[row] for row in batch.rows.tolist()]
        keys = ByKey(labels, batch.counts, nothing, nothing, nothing, nothing)
        data = key_columns.pack(keys, batch.statistics, timed=False)
        most, where = self._bus.max_record_bytes, panes.Place(*place)
        return panes.encode_bytes(where, batch.n_events, data, self._spec.fingerprint, version, most, self._schemas)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
