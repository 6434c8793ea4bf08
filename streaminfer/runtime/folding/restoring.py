"""Restores a table from the log: the newest snapshot that the log has as a whole, and what stands in its way."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from streaminfer.bus.protocol import Bus, Output, Partition, Reader, Record
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.folding.statistics_store import Store
from streaminfer.runtime.following import manifests
from streaminfer.runtime.following.follower import MOST_IN_THE_WAY
from streaminfer.runtime.following.rows import decode, readable
from streaminfer.runtime.intact import is_removal, value_of
from streaminfer.runtime.owning import obstacles
from streaminfer.runtime.owning.obstacles import REPAIR, InTheWay, Misfit
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.tables.table import Table
from streaminfer.variational.arena import NONE
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import BadValue, Older, UnknownSchema, WireError
from streaminfer.wire.snapshots import MANIFEST

log = logging.getLogger(__name__)

RESTORE_RECORDS: Final = 10_000
"""Records read in one step."""
MOST_OLDER: Final = 20
"""Older snapshots that are tried."""
INCOMPLETE: Final = "a part of a snapshot that is not complete"


class Restored(NamedTuple):
    """What a table is now: `published` is the bus's, and `snapshot` another one if it must be written at once."""

    published: Snapshot
    snapshot: Snapshot
    in_the_way: list[InTheWay]
    leftovers: list[Output]
    """Tombstones that the next snapshot is written with."""


class _Unknown(NamedTuple):
    """What cannot be read, and whether its schema is not known."""

    found: InTheWay
    unknown: bool


def place_or_none(key: bytes | None) -> key_records.RowPlace | None:
    """The place of a row; None of a record that is not in the place of one, whatever it is."""
    try:
        return key_records.place_of(key)
    except WireError:
        return None


class Restoring:
    """Reads the posterior, then what the table keeps beside it; `step` until it gives a result.

    One reading gives manifest and rows: between two, a master that fences this one might write. A million keys take
    longer than a member may be silent, so its master polls between the steps. If something is in the way, more readings
    go to the manifests before it. To go on from an older snapshot is safe: its frontier is the truth, so all events
    after it are read again.
    """

    def __init__(
        self, spec: Spec, bus: Bus, table: Table, store: Store | None, owner: Owner, schemas: Schemas, shard: int,
        start_over: bool,
    ) -> None:  # fmt: skip
        """With `start_over` a posterior that has no whole snapshot left starts from the prior."""
        self._spec, self._bus, self._table, self._store = spec, bus, table, store
        self._owner, self._schemas, self._start_over = owner, schemas, start_over
        self._posterior = Partition(names.topic(spec, "posterior"), shard)
        self._end = bus.ends(self._posterior.topic)[shard]
        self._teller = Teller(log)
        self._wholes: list[int] = []
        self._why: Fatal | None = None
        """Why the newest snapshot is not restored; then the reading of another ends at `_back`."""
        self._aside: list[InTheWay] = []
        self._newest_row = 0
        self._in_the_way: list[InTheWay] = []
        self._leftovers: list[Output] = []
        self._left = 0
        """Records that this step may still read."""
        self._opened: int | None = None
        """The version that the store was opened for."""
        self._open_reader(self._end)

    def _open_reader(self, end: int) -> None:
        """Starts reading all up to a position."""
        self._back = end
        self._table.clear()
        self._assembler = manifests.assembler(self._spec, self._schemas)
        self._junk: dict[bytes, _Unknown] = {}
        self._n_since = 0
        """Records that are not a part of a snapshot since the newest manifest: each may have had a version."""
        start = self._bus.starts(self._posterior.topic)[self._posterior.index]
        self._reader: Reader | None = self._bus.reader({self._posterior: start})
        self._found: Snapshot | None = None

    def step(self) -> Restored | None:
        """Reads on for a while, of many rows one portion; the result once all is here."""
        self._left = 1 if self._table.row_size else RESTORE_RECORDS
        while self._left > 0:
            found = self._advanced()
            if found is not None:
                return found
        return None

    def _advanced(self) -> Restored | None:
        if self._reader is not None and not self._read_on(self._reader):
            return None
        kept = self._table.snapshot if self._store is None else self._with_kept(self._store)
        if kept is None:
            return None
        published, snapshot = kept, kept
        if self._why is not None:
            published, snapshot = self._take_back(kept)
        elif self._junk:
            published, snapshot = self._overwrite(kept)
        if self._store is not None and self._store.in_the_way:
            self._owner.check_newest(self._end)
            self._step_over(self._store.in_the_way, kept)
            published = replace(published, version=max(published.version, self._store.newest))
            snapshot = replace(snapshot, version=published.version)
        return Restored(published, snapshot, self._in_the_way, self._leftovers)

    def _read_on(self, reader: Reader) -> bool:
        """Reads some, and whether a whole snapshot was read."""
        if reader.position(self._posterior) < self._back:
            slices = reader.poll(1.0, RESTORE_RECORDS).slices
            self._left -= sum(len(part.records) for part in slices) if slices else self._left
            for part in slices:
                records = [each for each in part.records if each.offset < self._back]
                self._found = self._load(records) or self._found
            return False
        self.close()
        unknown = [each.found for each in self._junk.values() if each.unknown]
        if unknown:
            raise obstacles.of_unknown_schema(unknown[-1])
        error = self._fault()
        if error is not None:
            self._go_back(error)
            return False
        self._table.rows.published()
        self._table.snapshot = self._found or self._table.start()
        return True

    def _with_kept(self, store: Store) -> Snapshot | None:
        """Reads on what the table keeps beside its snapshot: the snapshot with it, once all is here."""
        snapshot = self._table.snapshot
        if self._opened != snapshot.version:
            store.open(snapshot.version)
            self._opened = snapshot.version
        try:
            found = store.restored(snapshot)
            self._left -= int(RESTORE_RECORDS * store.share)
            if found is not None and self._found is None and self._why is None and store.newest:
                raise Misfit(store.partition, "records", 0, "there is no snapshot")
        except Misfit as error:
            self._opened = None
            self._go_back(error)
            self._aside = self._aside or store.in_the_way or [error.found]
            return None
        if found is not None:
            self._table.snapshot = found
        return found

    def _fault(self) -> Fatal | None:
        """Why what was read is not a whole snapshot."""
        missing = self._table.missing(self._found or self._table.start())
        if missing is None and (self._why is not None or not self._hides()):
            return None
        rows = [each.found for key, each in self._junk.items() if place_or_none(key)]
        if rows:
            return obstacles.nothing_whole(rows[-1])
        if missing is None or self._assembler.newest_row > self._assembler.newest:
            return Fatal(
                f"{self._posterior}: the log has rows of version {self._assembler.newest_row} and the newest manifest "
                f"has version {self._assembler.newest}. Was an old manifest put back? {REPAIR}"
            )
        return Fatal(f"{self._posterior}: {missing}. Was a part of the topic removed? {REPAIR}")

    def _hides(self) -> bool:
        """Whether rows are without their manifest, or what cannot be read may have been a newer row."""
        places = [place_or_none(key) for key in self._junk]
        may = any(place is not None and self._table.may_hide(place.label) for place in places)
        return may or self._assembler.newest_row > self._assembler.newest

    def _go_back(self, error: Fatal) -> None:
        """Reads again, up to the next older manifest before all that is in the way.

        Without one it raises the error, or with `start_over` reads nothing at all.
        """
        self._owner.check_newest(self._end, error)
        if self._why is None:
            self._why, self._aside = error, self._set_aside_so_far()
            self._newest_row = max(self._assembler.newest, self._assembler.newest_row)
            bad = [each.found.record.offset for key, each in self._junk.items() if place_or_none(key)]
            self._wholes = [each for each in self._wholes if each < min(bad, default=self._end)]
            if isinstance(error, Misfit) and self._wholes:
                self._wholes.pop()  # that of the newest snapshot, which is not whole
            self._wholes = self._wholes[-MOST_OLDER:]
        elif self._back == 0:
            raise self._why
        if not self._wholes and not self._start_over:
            raise self._why
        self._open_reader(self._wholes.pop() + 1 if self._wholes else 0)

    def _set_aside_so_far(self) -> list[InTheWay]:
        return [each.found for each in self._junk.values()][:MOST_IN_THE_WAY]

    def _step_over(self, found: list[InTheWay], whole: Snapshot | None) -> None:
        """Says what is in the way of the newest whole snapshot; raises Fatal without one."""
        self._in_the_way = [*self._in_the_way, *found]
        if whole is None and not self._start_over:
            raise obstacles.nothing_whole(found[-1])
        for each in found:
            log.warning("skipped %s", each)
        if whole is not None:
            log.warning("restored version %d, the newest whole snapshot: later events are read again", whole.version)

    def _take_back(self, kept: Snapshot) -> tuple[Snapshot, Snapshot]:
        """Has all rows after the snapshot written anew: what stands there is not a part of it."""
        passed, start = 0, self._bus.starts(self._posterior.topic)[self._posterior.index]
        with self._bus.reader({self._posterior: max(self._back, start)}) as reader:
            while reader.position(self._posterior) < self._end:
                for record in (each for part in reader.poll(1.0).slices for each in part.records):
                    passed += 1
                    self._take_back_row(record)
        if not self._aside:
            why = "from here on, records are not part of a complete snapshot"
            self._aside = [InTheWay(Record(self._posterior, self._back, 0, None, None), why)]
        self._step_over(self._aside, self._found)
        # Each of these records may have had a version of its own: the next one is above them all.
        version = max(kept.version + passed, self._newest_row)
        published = replace(kept, version=version)
        return published, self._table.taken_back(replace(published))

    def _take_back_row(self, record: Record) -> None:
        place = place_or_none(record.key)
        if place is None or not self._table.take_back(place.label, place.clock, self._count_of(place, record)):
            self._remove(record.key)

    def _count_of(self, place: key_records.RowPlace, record: Record) -> float | None:
        """What a row counts; None of what cannot be read."""
        try:
            value = value_of(record)
            return (
                None
                if value is None
                else float(decode(self._spec, [place.label], [value], self._schemas).numbers[0, 0])
            )
        except WireError:
            return None

    def _remove(self, key: bytes | None) -> None:
        """A tombstone with the next snapshot."""
        if key is not None and key != MANIFEST:
            self._leftovers.append(Output(self._posterior.topic, None, key, self._posterior.index))

    def _overwrite(self, kept: Snapshot) -> tuple[Snapshot, Snapshot]:
        """What cannot be read and is not a part of the snapshot goes with the next one, before compaction."""
        rows = self._table.rows
        for key in self._junk:
            place = place_or_none(key)
            row = NONE if place is None else int(rows.find([place.label], place.clock)[0])
            if row == NONE:
                self._remove(key)
            else:
                rows.dirty[row] = True
        self._step_over(self._set_aside_so_far(), self._found)
        published = replace(kept, version=kept.version + self._n_since)
        return published, replace(published)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _load(self, records: Sequence[Record]) -> Snapshot | None:
        """Takes in records in their order, rows of one run at once; returns the newest manifest's snapshot."""
        found: Snapshot | None = None
        run: list[Record] = []
        for record in records:
            key = record.key or b""
            if key.startswith(key_records.PREFIX) and record.value is not None:
                run.append(record)
                continue
            self._load_run(run)
            run = []
            if is_removal(record):
                self._junk.pop(key, None)
            elif key.startswith(key_records.PREFIX):
                self._drop(record)
            else:
                found = self._load_manifest(record) or found
        self._load_run(run)
        return found

    def _load_manifest(self, record: Record) -> Snapshot | None:
        """The snapshot that a manifest or chunk completes."""
        try:
            found = manifests.assembled(self._spec, self._assembler, record)
            if found is not None:
                manifests.check_snapshot(self._spec, found)
        except Older as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
            return None
        except (WireError, DomainError) as error:
            self._set_aside(record, error)
            return None
        if found is None:
            self._n_since += 1
            self._junk[record.key or b""] = _Unknown(InTheWay(record, INCOMPLETE), unknown=False)
            return None
        self._n_since = 0
        self._junk = {key: each for key, each in self._junk.items() if place_or_none(key) is not None}
        if self._why is None:
            self._wholes.append(record.offset)
        return found

    def _drop(self, record: Record) -> None:
        """A tombstone of a row."""
        place = place_or_none(record.key)
        try:
            value_of(record)
        except WireError as error:
            self._set_aside(record, error)
            return
        self._junk.pop(record.key or b"", None)
        if place is not None and place.label in self._table.rows.rows:
            self._table.rows.drop(place.label)

    def _set_aside(self, record: Record, error: Exception) -> None:
        """Keeps in mind what cannot be read, until something else has taken its place."""
        self._teller.tell(f"{record.partition} offset {record.offset} is not a part of a snapshot: {error}")
        self._n_since += 1
        self._junk[record.key or b""] = _Unknown(InTheWay(record, str(error)), isinstance(error, UnknownSchema))

    def _load_run(self, run: Sequence[Record]) -> None:
        """Rows all at once; if one cannot be read, each by itself."""
        for records, found in readable(run, self._read_rows, self._set_aside):
            versions = self._load_rows(records, found)
            if self._junk:
                for record, version in zip(records, versions, strict=True):
                    if version > self._assembler.newest:
                        self._junk.pop(record.key or b"", None)

    def _read_rows(self, run: Sequence[Record]) -> key_records.Decoded:
        placed = [(key_records.place_of(record.key), value_of(record)) for record in run]
        rows = [(place.label, value) for place, value in placed if place is not None and value is not None]
        if len(rows) < len(run):
            raise BadValue("a row must have a key and a value")
        return decode(self._spec, [label for label, _ in rows], [value for _, value in rows], self._schemas)

    def _load_rows(self, run: Sequence[Record], found: key_records.Decoded) -> list[int]:
        """Takes in those that are above the newest snapshot before them, as versions only rise; the versions of all."""
        versions, numbers = found
        risen = [i for i, version in enumerate(versions) if version > self._assembler.newest]
        if len(risen) < len(run):
            n, newest = len(run) - len(risen), self._assembler.newest
            self._teller.tell(f"{self._posterior}: {counted(n, 'row')} appended again after version {newest}, ignored")
        if risen:
            self._assembler.saw_row(max(versions))
            places = [place for place in (key_records.place_of(run[i].key) for i in risen) if place is not None]
            self._table.rows.load([p.label for p in places], [p.clock for p in places], numbers[risen])
        return versions
