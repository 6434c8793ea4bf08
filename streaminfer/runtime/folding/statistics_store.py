"""Keeps panes or batches of a table on the topic `statistics`: written with the snapshot that contains them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from streaminfer.bus.protocol import Bus, Output, Partition, Reader
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.owning.aside import Aside
from streaminfer.runtime.owning.obstacles import InTheWay, Misfit
from streaminfer.spec import Spec
from streaminfer.tables.table import Columns, Keeping, Kept, Place
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_columns, panes, vectors
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.panes import Shelf, Stored

STEP: Final = 100
"""Records read in one step of a restore, of up to a megabyte each."""
STEP_BYTES: Final = 32 << 20
"""Bytes that are unpacked in one: all of them may take longer than a member may be silent."""
MOST_PUT_BACK: Final = 1000
KEY: Final = re.compile(rb"(\d{1,18})/(-?\d{1,18})/\d{1,9}")


class Store:
    """What one shard keeps. A restore begins with `open`, and `restored` reads on until all is here."""

    def __init__(self, spec: Spec, bus: Bus, shard: int, keeping: Keeping, schemas: Schemas) -> None:
        self._spec, self._bus, self._keeping, self._schemas = spec, bus, keeping, schemas
        self.partition = Partition(names.topic(spec, panes.TOPIC), shard)
        self._aside = Aside(self.partition)
        self._shelf: Shelf | None = None
        self._reader: Reader | None = None
        self._whole: Iterator[Stored] | None = None
        self.share = 0.0
        """How much of what one step may read the last call of `restored` has read."""

    @property
    def _size(self) -> int:
        """Numbers of each, at most."""
        return key_columns.MAX_BYTES // 8 if self._keeping.columns else self._spec.model.size

    def open(self, version: int) -> None:
        """Starts to read what the snapshot of a version has. No other master can write it any more."""
        self.close()
        parts = vectors.n_pieces(self._size, self._bus.max_record_bytes - panes.ENVELOPE)
        self._shelf = Shelf(
            self._spec.fingerprint, self._size, self._keeping.most * parts, self._schemas, self._keeping.least, version
        )
        self._aside, self._whole = Aside(self.partition), None
        self._keeping.clear()
        topic, index = self.partition
        self._end = self._bus.ends(topic)[index]
        self._reader = self._bus.reader({self.partition: self._bus.starts(topic)[index]})

    def restored(self, snapshot: Snapshot) -> Snapshot | None:
        """A snapshot with what belongs to it; each call goes on, None until all is here.

        Raises Misfit if what is on the bus does not belong to it. It may be older than what is there, as long as the
        log has what it needs. Tombstones say nothing of their version: the last ones may be of a later snapshot, and
        then the counts do not agree with them.
        """
        self.share = 0.0
        if not self._read() or self._shelf is None:
            return None
        try:
            if not self._unpack(self._shelf, snapshot):
                return None
            found = self._keeping.whole(snapshot)
        except (WireError, DomainError) as error:
            found = self._put_back(self._shelf, snapshot, error)
        self._aside.passed(self._shelf)
        self._shelf = self._whole = None
        return found

    def _read(self) -> bool:
        """Reads some of what there is, and whether that was all."""
        if self._reader is None or self._shelf is None:
            return True
        if self._reader.position(self.partition) >= self._end:
            self._aside.newest = self._shelf.seen
            self.close()
            return True
        slices = self._reader.poll(1.0, STEP).slices
        self.share = sum(len(part.records) for part in slices) / STEP if slices else 1.0
        for part in slices:
            for record in part.records:
                if record.offset < self._end:
                    self._aside.add(self._shelf, record)
        return False

    def _unpack(self, shelf: Shelf, snapshot: Snapshot) -> bool:
        """Takes in some of what was read, and whether that was all."""
        if self._whole is None:
            self._whole = shelf.whole(snapshot.version)
        n_bytes = 0
        for stored in self._whole:
            n_bytes += self._keeping.put(self._decoded(stored))
            if n_bytes >= STEP_BYTES:
                self.share = 1.0
                return False
        return True

    def _put_back(self, shelf: Shelf, snapshot: Snapshot, why: Exception) -> Snapshot:
        """Tries again without the last tombstones, one after the other."""
        for _ in range(MOST_PUT_BACK):
            if not shelf.put_back():
                break
            self._keeping.clear()
            try:
                for stored in shelf.whole(snapshot.version):
                    self._keeping.put(self._decoded(stored))
                return self._keeping.whole(snapshot)
            except (WireError, DomainError):
                continue
        raise Misfit(self.partition, self._keeping.what, snapshot.version, str(why)) from why

    def _decoded(self, stored: Stored) -> Kept:
        place, model = Place(*stored.place), self._spec.model
        if not self._keeping.columns:
            return Kept(place, stored.n_events, vectors.join(stored.pieces, model.size))
        keys, statistics = key_columns.unpack(b"".join(stored.pieces), model.size, False, stored.n_events, words=True)
        return Kept(place, stored.n_events, Columns(keys, statistics))

    @property
    def in_the_way(self) -> list[InTheWay]:
        """What the last restore stepped over."""
        return self._aside.found

    @property
    def newest(self) -> int:
        """The newest version that the last restore met."""
        return self._aside.newest

    def changes(self, old: Snapshot, new: Snapshot) -> list[Output]:
        """What must be written so that what is on the bus, which is of `old`, is of `new`."""
        outputs = self._mended(new)
        for kept in self._keeping.changes(old, new):
            outputs += self._written(kept, new.version)
        return outputs

    def _mended(self, new: Snapshot) -> list[Output]:
        """What takes the place of all that the restore stepped over."""
        aside, self._aside = sorted(self._aside.keys), Aside(self.partition)
        places = {Place(int(m[1]), int(m[2])) for m in map(KEY.fullmatch, aside) if m is not None}
        live = [kept for kept in (self._keeping.find(new, place) for place in sorted(places)) if kept is not None]
        outputs = [output for kept in live for output in self._written(kept, new.version)]
        topic, index = self.partition
        gone = [Output(topic, None, key, index) for key in aside if key not in {output.key for output in outputs}]
        return gone + outputs

    def _written(self, kept: Kept, version: int) -> list[Output]:
        topic, index = self.partition
        most, place, item = self._bus.max_record_bytes, panes.PanePlace(*kept.place), kept.item
        if item is None:
            return [Output(topic, None, key, index) for key in panes.keys(place, self._spec.model.size, most)]
        packed = key_columns.pack(*item, timed=False) if isinstance(item, Columns) else vectors.pack(item)
        fingerprint = self._spec.fingerprint
        records = panes.encode_bytes(place, kept.n_events, packed, fingerprint, version, most, self._schemas)
        return [Output(topic, data, key, index) for key, data in records]

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
