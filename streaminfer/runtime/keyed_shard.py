"""One shard of a keyed posterior in its master's hands: the same promises, and a row for every key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streaminfer.bus.protocol import Member, Output, Partition, Reader, Record
from streaminfer.models.model import DomainError, Matrix
from streaminfer.runtime import manifests, names
from streaminfer.runtime.parts import Parts
from streaminfer.runtime.pooling import fitted, model_of
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.shard import Shard, unreadable
from streaminfer.variational import keyed, rules
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.snapshots import Assembler

MAX_DIRTY: Final = 10_000
"""Rows of keys in one snapshot, about: a transaction stays small, whatever `snapshot_ms` says."""
MAX_DIRTY_BYTES: Final = 8 << 20
RESTORE_RECORDS: Final = 10_000
"""Records read in one step of a restore."""
GROWTH: Final = 1.25
"""How many times the events of the last fit there must be for the next."""


class KeyedShard(Shard):
    """`snapshot` has the frontier and the counts, the arena the statistics of every key."""

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
        self._assembler = Assembler(self._spec.fingerprint, manifests.statistics_size(self._spec), self._schemas)
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
        if len(self._arena) != n_keys:
            raise Fatal(
                f"{self._posterior}: the newest snapshot has {n_keys} keys and the log {len(self._arena)}. Was a part "
                "of the topic removed? Give the spec a new name to start over."
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
        run: list[tuple[key_records.Place, bytes]] = []
        for record in records:
            try:
                place = key_records.place_of(record.key)
                if place is not None and record.value is not None:
                    run.append((place, record.value))
                elif place is None:
                    found = assembler.add(record.value) or found
                    if found is not None:
                        model_of(self._spec, found)
                        manifests.check_statistics(self._spec, found)
                else:
                    self._load_run(run)
                    run = []
                    if place.label in self._arena.rows:
                        self._arena.drop(place.label)
            except (WireError, DomainError) as error:
                raise unreadable(record, f"it ({error}) is no part of a snapshot") from error
        try:
            self._load_run(run)
        except WireError as error:
            raise unreadable(records[-1], f"one of the keys before it ({error}) is none") from error
        return found

    def _load_run(self, run: list[tuple[key_records.Place, bytes]]) -> None:
        if not run:
            return
        labels = [place.label for place, _ in run]
        found = key_records.decode(labels, [value for _, value in run], self._row_size, self._schemas)
        if not self._proper(found.numbers[:, key_records.NUMBERS :]):
            raise BadValue("a key has statistics that give no posterior")
        self._arena.load(labels, [place.clock for place, _ in run], found.numbers)

    def _fold(self, increment: Increment) -> None:
        model = model_of(self._spec, self.snapshot)
        self.snapshot, outcome = keyed.add(model, self._arena, self.snapshot, increment, self._rules)
        self._metrics.outcome(outcome.value)
        self.urgent = self.urgent or not outcome.moved

    def commit(self, member: Member, now_ms: int) -> None:
        """As any shard, after some of the idle keys are dropped.

        The keys of a snapshot that was reported as committed and is not in the log would be missing for ever: no later
        one has them again. So the last one must be there first.
        """
        self.verify()
        if self._rules.expire_after is not None:
            ends = self._bus.ends(self._data)
            self.snapshot = keyed.expire(self._arena, self.snapshot, self._rules, self._most_dirty, ends)
        if self._spec.key is not None and self._spec.key.pooled:
            self._pool()
        super().commit(member, now_ms)
        self._arena.published()

    def _n_effective(self, snapshot: Snapshot) -> float:
        """Those of each key as of its own newest event."""
        return super()._n_effective(snapshot) if self._rules.forgetting is None else self._arena.total_effective

    @property
    def _scored(self) -> bool:
        return self._rules.forgetting is None

    def _pool(self) -> None:
        """Fits the prior to some of the keys anew where there are a quarter more events than at the last time."""
        if not self._arena.rows or self.snapshot.n_events < GROWTH * self.snapshot.n_pooled:
            return
        self.snapshot = fitted(self._spec.model, self._arena, self.snapshot)

    def _outputs(self, snapshot: Snapshot) -> list[Output]:
        """Keys that are gone, keys that have changed, and the manifest."""
        topic, index = names.topic(self._spec, "posterior"), self.partition.index
        gone = [Output(topic, None, key_records.record_key(*place), index) for place in sorted(self._arena.gone)]
        changed = [
            Output(
                topic,
                key_records.encode(entry, snapshot.version, self._schemas),
                key_records.record_key(entry.label, entry.clock),
                index,
            )
            for entry in self._arena.changed()
        ]
        self._metrics.dirty_keys.set(len(changed))
        return [*gone, *changed, *super()._outputs(snapshot)]
