"""One shard of a keyed posterior in its master's hands: the same promises, and a row for every key."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from streaminfer.bus.protocol import Member, Output, Partition, Reader, Record
from streaminfer.models.model import DomainError, Matrix
from streaminfer.runtime import manifests, names, stepping
from streaminfer.runtime.counting import counted
from streaminfer.runtime.follower import MOST_IN_THE_WAY
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.parts import Parts
from streaminfer.runtime.pooling import model_of, pooled
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.shard import Shard
from streaminfer.runtime.stepping import REPAIR, InTheWay
from streaminfer.variational import keyed, rules
from streaminfer.variational.arena import NONE, Arena
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.errors import BadValue, Older, UnknownSchema, WireError
from streaminfer.wire.snapshots import MANIFEST, Assembler

log = logging.getLogger(__name__)

MAX_DIRTY: Final = 10_000
"""Rows of keys in one snapshot, about: a transaction stays small, whatever `snapshot_ms` says."""
MAX_DIRTY_BYTES: Final = 8 << 20
RESTORE_RECORDS: Final = 10_000
"""Records read in one step of a restore."""
GROWTH: Final = 1.25
"""How many times the events of the last fit of a pooled prior there must be for the next, until the data rests."""

Placed = tuple[key_records.Place, bytes]
"""The row of a key."""


def _place(key: bytes | None) -> key_records.Place | None:
    """The place of a row; None of a record that is not in the place of one, whatever it is."""
    try:
        return key_records.place_of(key)
    except WireError:
        return None


def _placed(record: Record) -> Placed:
    place, value = key_records.place_of(record.key), value_of(record)
    if place is None or value is None:
        raise BadValue("a row must have a key and a value")
    return place, value


class KeyedShard(Shard):
    """`snapshot` has the frontier and the counts, the arena the statistics of every key."""

    _resting = False
    _steps_back = True
    """Whether an older snapshot can be restored where newer rows are in the log."""

    @property
    def full(self) -> bool:
        return self._arena.n_dirty >= self._most_dirty

    @property
    def _most_dirty(self) -> int:
        return max(1, min(MAX_DIRTY, MAX_DIRTY_BYTES // (8 * self._row_size)))

    @property
    def _row_size(self) -> int:
        """Numbers of a row in the arena."""
        return self._spec.model.size

    def _proper(self, rows: Matrix) -> bool:
        return bool(self._spec.model.proper(rows).all())

    @property
    def _rules(self) -> keyed.Rules:
        key, forget = self._spec.key, self._spec.inference.forget
        return keyed.Rules(rules.of(forget), None if key is None else key.expire_after)

    def _new_parts(self) -> Parts:
        index = self.partition.index
        return Parts(
            self._spec.model.size,
            self._spec.inference.by_time,
            belongs=lambda key: names.shard_of(self._spec, key) == index,
        )

    def _read_back(self) -> Snapshot | None:
        """Nothing yet: `restored` reads the newest manifest and all keys, some at a time."""
        self._posterior = Partition(names.topic(self._spec, "posterior"), self.partition.index)
        self._end = self._bus.ends(self._posterior.topic)[self.partition.index]
        self._wholes: list[int] = []
        self._junk: dict[bytes, InTheWay] = {}
        self._back: int | None = None
        self._open_reader(self._end)
        return None

    def _open_reader(self, end: int) -> None:
        """Starts reading all up to a position."""
        self._restore_end = end
        self._arena = Arena(self._row_size)
        self._assembler = manifests.assembler(self._spec, self._schemas)
        start = self._bus.starts(self._posterior.topic)[self.partition.index]
        self._reader: Reader | None = self._bus.reader({self._posterior: start})
        self._found: Snapshot | None = None

    def restored(self) -> bool:
        """One reading gives manifest and keys: in two, who fences this master might write between them.

        A million keys take longer than a member may be silent, so its master polls between the calls. If something is
        in the way, a second reading goes to the newest manifest before it.
        """
        if self._reader is None:
            return True
        if self._reader.position(self._posterior) < self._restore_end:
            for part in self._reader.poll(1.0, RESTORE_RECORDS).slices:
                records = [each for each in part.records if each.offset < self._restore_end]
                self._found = self._load(records, self._assembler) or self._found
            return False
        self._reader.close()
        self._reader = None
        if self._back is None and self._in_the_way():
            self._go_back()
            return False
        self._arena.published()
        if not self._is_whole():
            return False
        if self._found is not None:
            self.published = self.snapshot = self._found
            self._n_events = {self.published.version: self.published.n_events}
        if self._back is not None:
            self._take_back(self._back)
        return True

    def _in_the_way(self) -> bool:
        """Whether rows are without their manifest, or cannot be read and no later one has taken their place."""
        return self._assembler.newest_row > self._assembler.newest or any(map(_place, self._junk))

    def _go_back(self) -> None:
        """Reads again, up to the newest manifest before all that is in the way."""
        self._newest_row = self._assembler.newest_row
        bad = [each.record.offset for key, each in self._junk.items() if _place(key)]
        wholes = [offset for offset in self._wholes if offset < min(bad, default=self._end)]
        if not wholes or not self._steps_back:
            self.in_the_way = list(self._junk.values())[:MOST_IN_THE_WAY]
            if not self._start_over or not self._steps_back:
                raise self._without_manifest()
            self._back = 0
            self._open_reader(0)
            return
        self._back = wholes[-1] + 1
        self._open_reader(self._back)

    def _without_manifest(self) -> Fatal:
        if self.in_the_way:
            return stepping.nothing_whole(self.in_the_way[-1])
        return Fatal(
            f"{self._posterior}: the log has rows of version {self._newest_row} and the newest manifest has version "
            f"{self._assembler.newest}. Was an old manifest put back? {REPAIR}"
        )

    def _is_whole(self) -> bool:
        """Whether all keys of the snapshot are here; otherwise Fatal, or with `start_over` nothing is read at all."""
        n_keys = 0 if self._found is None else self._found.n_keys
        if len(self._arena) == n_keys:
            return True
        error = Fatal(
            f"{self._posterior}: the newest snapshot has {counted(n_keys, 'key')} and the log {len(self._arena)}. "
            f"Was a part of the topic removed? {REPAIR}"
        )
        self._check_newest(self._end, error)
        if not self._start_over or not self._steps_back:
            raise error
        self._newest_row = max(self._assembler.newest, self._assembler.newest_row)
        self._back = 0
        self._open_reader(0)
        return False

    def _take_back(self, begin: int) -> None:
        """Marks all rows from a position on as to be written anew: what stands there is not a part of the snapshot."""
        passed, start = 0, self._bus.starts(self._posterior.topic)[self._posterior.index]
        with self._bus.reader({self._posterior: max(begin, start)}) as reader:
            while reader.position(self._posterior) < self._end:
                for record in (each for part in reader.poll(1.0).slices for each in part.records):
                    passed += 1
                    self._take_back_row(record)
        if passed == 0:
            return
        why = "what is from here on is not a part of a whole snapshot"
        last = Record(self._posterior, begin, 0, None, None)
        self.in_the_way = list(self._junk.values())[:MOST_IN_THE_WAY] or [InTheWay(last, why)]
        self._step_over(self.in_the_way, self._found)
        # Each of these records may have had a version of its own: the next one is above them all.
        version = max(self.published.version + passed, self._newest_row)
        self.published = replace(self.published, version=version)
        self.snapshot = replace(self.published)

    def _take_back_row(self, record: Record) -> None:
        place = _place(record.key)
        if place is None:
            if record.key not in {None, MANIFEST}:
                self._leftovers.append(Output(self._posterior.topic, None, record.key, self._posterior.index))
            return
        (row,) = self._arena.find([place.label], place.clock).tolist()
        self._arena.gone.add((place.label, place.clock))
        if row != NONE:
            self._arena.dirty[row] = True

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        super().close()

    def _load(self, records: Sequence[Record], assembler: Assembler) -> Snapshot | None:
        """Takes in records in their order, keys of one run at once; returns the newest manifest's snapshot."""
        found: Snapshot | None = None
        run: list[Record] = []
        for record in records:
            key = record.key or b""
            if key.startswith(key_records.PREFIX) and record.value is not None:
                run.append(record)
                continue
            self._load_run(run)
            run = []
            if not key.startswith(key_records.PREFIX):
                found = self._load_manifest(record, assembler) or found
            else:
                self._drop(record)
        self._load_run(run)
        return found

    def _load_manifest(self, record: Record, assembler: Assembler) -> Snapshot | None:
        try:
            found = manifests.assembled(self._spec, assembler, record)
            if found is not None:
                model_of(self._spec, found)
                manifests.check_statistics(self._spec, found)
                self._wholes.append(record.offset)
        except Older as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
            return None
        except (WireError, DomainError) as error:
            self._set_aside(record, error)
            return None
        return found

    def _drop(self, record: Record) -> None:
        """A tombstone of a key."""
        place = _place(record.key)
        try:
            value_of(record)
        except WireError as error:
            self._set_aside(record, error)
            return
        self._junk.pop(record.key or b"", None)
        if place is not None and place.label in self._arena.rows:
            self._arena.drop(place.label)

    def _set_aside(self, record: Record, error: Exception) -> None:
        """Keeps in mind what cannot be read, until something else has taken its place."""
        self._teller.tell(f"{record.partition} offset {record.offset} is not a part of a snapshot: {error}")
        found = InTheWay(record, str(error))
        if isinstance(error, UnknownSchema):
            raise stepping.of_unknown_schema(found)
        self._junk[record.key or b""] = found

    def _load_run(self, run: Sequence[Record]) -> None:
        """Rows all at once; if one cannot be read, each by itself."""
        if not run:
            return
        try:
            placed = [_placed(record) for record in run]
            versions = self._load_rows(placed)
        except WireError as error:
            if len(run) == 1:
                self._set_aside(run[0], error)
                return
            middle = len(run) // 2
            self._load_run(run[:middle])
            self._load_run(run[middle:])
            return
        if self._junk:
            for record, version in zip(run, versions, strict=True):
                if version > self._assembler.newest:
                    self._junk.pop(record.key or b"", None)

    def _load_rows(self, run: Sequence[Placed]) -> list[int]:
        """Takes in those that are above the newest snapshot before them, as versions only rise; the versions of all."""
        labels = [place.label for place, _ in run]
        versions, numbers = self._check_rows(labels, [value for _, value in run])
        risen = [i for i, version in enumerate(versions) if version > self._assembler.newest]
        if len(risen) < len(run):
            n, newest = len(run) - len(risen), self._assembler.newest
            self._teller.tell(f"{self._posterior}: {counted(n, 'row')} appended again after version {newest}, ignored")
            labels, run, numbers = [labels[i] for i in risen], [run[i] for i in risen], numbers[risen]
        if risen:
            self._assembler.saw_row(max(versions))
            self._arena.load(labels, [place.clock for place, _ in run], numbers)
        return versions

    def _check_rows(self, labels: Sequence[bytes], values: Sequence[bytes]) -> key_records.Decoded:
        """What records of keys say; raises WireError where one cannot be restored."""
        found = key_records.decode(labels, values, self._row_size, self._schemas)
        if not self._proper(found.numbers[:, key_records.NUMBERS :]):
            raise BadValue("a key has statistics that give no posterior")
        return found

    def _fold(self, increment: Increment) -> None:
        self.snapshot, outcome = keyed.add(self._spec.model, self._arena, self.snapshot, increment, self._rules)
        self._metrics.outcome(outcome.value)
        self.urgent = self.urgent or not outcome.moved

    def commit(self, member: Member | None, now_ms: int) -> None:
        """As any shard, after some of the idle keys are dropped.

        The keys of a snapshot that was reported as committed and is not in the log would be missing for ever: no later
        one has them again. So the last one must be there first.
        """
        self.verify()
        before = self.snapshot.n_expired
        if self._rules.expire_after is not None:
            ends = self._bus.ends(self._data)
            self.snapshot = keyed.expire(self._arena, self.snapshot, self._rules, self._most_dirty, ends)
        if self._spec.pooled:
            self._pool(all_gone=self.snapshot.n_expired - before < self._most_dirty)
        super().commit(member, now_ms)
        self._arena.published()

    def _n_effective(self, snapshot: Snapshot) -> float:
        """Those of each key as of its own newest event."""
        return super()._n_effective(snapshot) if self._rules.forgetting is None else self._arena.total_effective

    @property
    def restless(self) -> bool:
        """Also where the prior is not that of the keys as they are."""
        return super().restless or (self._spec.pooled and self.snapshot.n_pooled != self.snapshot.n_events)

    def rest(self, ends: Mapping[int, int]) -> None:
        """The next snapshot has the prior of all events, whatever was fitted before and when; words have passes."""
        if not self._spec.pooled:
            super().rest(ends)
            return
        self._resting = True
        log.info("at rest at %s: the prior is fitted to all keys as they are", dict(ends))

    def _pool(self, all_gone: bool) -> None:
        """Fits the prior where the data rests, or there are a quarter more events than at the last time.

        `n_pooled` is `n_events` only if the prior is that of the keys as they are: not where idle ones are still to go.
        """
        now, final = self.snapshot, self._resting and all_gone
        self._resting = False
        if final or now.n_events >= GROWTH * now.n_pooled:
            n_pooled = now.n_events if all_gone else max(0, now.n_events - 1)
            self.snapshot = replace(now, prior=pooled(self._spec, self._arena), n_pooled=n_pooled)
        elif now.n_expired != self.published.n_expired:
            self.snapshot = replace(now, n_pooled=max(0, min(now.n_pooled, now.n_events - 1)))

    def _outputs(self, snapshot: Snapshot) -> list[Output]:
        """Keys that are gone, keys that have changed, and the manifest."""
        topic, index = names.topic(self._spec, "posterior"), self.partition.index
        gone = [Output(topic, None, key_records.record_key(*place), index) for place in sorted(self._arena.gone)]
        entries = list(self._arena.changed())
        rows = [key_records.encode(entry, snapshot.version, self._schemas) for entry in entries]
        with self._readable(snapshot):
            if rows:
                self._check_rows([entry.label for entry in entries], rows)
        changed = [
            Output(topic, row, key_records.record_key(entry.label, entry.clock), index)
            for entry, row in zip(entries, rows, strict=True)
        ]
        self._metrics.dirty_keys.set(len(changed))
        return [*gone, *changed, *super()._outputs(snapshot)]
