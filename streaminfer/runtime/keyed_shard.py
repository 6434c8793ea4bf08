"""One shard of a keyed posterior in its master's hands: the same promises, and a row for every key."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from streaminfer.bus.protocol import Member, Output, Partition, Reader, Record
from streaminfer.models.model import DomainError, Matrix
from streaminfer.runtime import manifests, names
from streaminfer.runtime.counting import counted
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.parts import Parts
from streaminfer.runtime.pooling import model_of, pooled
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.shard import Shard, unreadable
from streaminfer.variational import keyed, rules
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.errors import BadValue, Older, WireError
from streaminfer.wire.snapshots import Assembler

log = logging.getLogger(__name__)

MAX_DIRTY: Final = 10_000
"""Rows of keys in one snapshot, about: a transaction stays small, whatever `snapshot_ms` says."""
MAX_DIRTY_BYTES: Final = 8 << 20
RESTORE_RECORDS: Final = 10_000
"""Records read in one step of a restore."""
START_OVER: Final = "Give the spec a new name to start over."
GROWTH: Final = 1.25
"""How many times the events of the last fit of a pooled prior there must be for the next, until the data rests."""

Placed = tuple[key_records.Place, bytes]
"""The row of a key."""


class KeyedShard(Shard):
    """`snapshot` has the frontier and the counts, the arena the statistics of every key."""

    _resting = False

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
        self._arena = Arena(self._row_size)
        self._assembler = manifests.assembler(self._spec, self._schemas)
        self._posterior = Partition(names.topic(self._spec, "posterior"), self.partition.index)
        starts, ends = self._bus.starts(self._posterior.topic), self._bus.ends(self._posterior.topic)
        self._restore_end = ends[self.partition.index]
        self._reader: Reader | None = self._bus.reader({self._posterior: starts[self.partition.index]})
        self._found: Snapshot | None = None
        return None

    def restored(self) -> bool:
        """One reading gives manifest and keys: in two, who fences this master might write between them.

        A million keys take longer than a member may be silent, so its master polls between the calls.
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
        self._arena.published()
        n_keys = 0 if self._found is None else self._found.n_keys
        if self._assembler.newest_row > self._assembler.newest:
            raise Fatal(
                f"{self._posterior}: the log has rows of version {self._assembler.newest_row} and the newest "
                f"manifest has version {self._assembler.newest}. Was an old manifest put back? {START_OVER}"
            )
        if len(self._arena) != n_keys:
            raise Fatal(
                f"{self._posterior}: the newest snapshot has {counted(n_keys, 'key')} and the log {len(self._arena)}. "
                f"Was a part of the topic removed? {START_OVER}"
            )
        if self._found is not None:
            self.published = self.snapshot = self._found
            self._n_events = {self.published.version: self.published.n_events}
        return True

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        super().close()

    def _load(self, records: Sequence[Record], assembler: Assembler) -> Snapshot | None:
        """Takes in records in their order, keys of one run at once; returns the newest manifest's snapshot."""
        found: Snapshot | None = None
        run: list[Placed] = []
        for record in records:
            try:
                place = key_records.place_of(record.key)
                value = value_of(record)
                if place is not None and value is not None:
                    run.append((place, value))
                elif place is None:
                    self._load_run(run)
                    run = []
                    found = manifests.assembled(self._spec, assembler, record) or found
                    if found is not None:
                        model_of(self._spec, found)
                        manifests.check_statistics(self._spec, found)
                else:
                    self._load_run(run)
                    run = []
                    if place.label in self._arena.rows:
                        self._arena.drop(place.label)
            except Older as error:
                log.warning("%s offset %d is ignored: %s", record.partition, record.offset, error)
            except (WireError, DomainError) as error:
                raise unreadable(record, f"it ({error}) is no part of a snapshot") from error
        try:
            self._load_run(run)
        except WireError as error:
            raise unreadable(records[-1], f"one of the keys before it ({error}) is none") from error
        return found

    def _load_run(self, run: list[Placed]) -> None:
        if not run:
            return
        labels = [place.label for place, _ in run]
        found = self._check_rows(labels, [value for _, value in run])
        if min(found.versions) <= self._assembler.newest:
            run = self._risen(run, found.versions)
            self._load_run(run)
            return
        self._assembler.saw_row(max(found.versions))
        self._arena.load(labels, [place.clock for place, _ in run], found.numbers)

    def _risen(self, run: Sequence[Placed], versions: Sequence[int]) -> list[Placed]:
        """Those of a run that are above the newest snapshot before them: versions only rise."""
        good = [each for each, version in zip(run, versions, strict=True) if version > self._assembler.newest]
        n, newest = len(run) - len(good), self._assembler.newest
        log.warning("%s: %s appended again after version %d, ignored", self._posterior, counted(n, "row"), newest)
        return good

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

    def commit(self, member: Member, now_ms: int) -> None:
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
