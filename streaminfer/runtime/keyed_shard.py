"""One shard of a keyed posterior in its master's hands: the same promises, and a row for every key."""

from __future__ import annotations

from typing import Final

from streaminfer.bus.protocol import Member, Output, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.parts import Parts
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.shard import Shard
from streaminfer.variational import forgetting, keyed
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.errors import BadValue, WireError

MAX_DIRTY: Final = 10_000
"""Rows of keys in one snapshot, about: a transaction stays small, whatever `snapshot_ms` says."""
MAX_DIRTY_BYTES: Final = 8 << 20


class KeyedShard(Shard):
    """`snapshot` has the frontier and the counts, the arena the statistics of every key."""

    @property
    def full(self) -> bool:
        return self._arena.n_dirty >= self._most_dirty

    @property
    def _most_dirty(self) -> int:
        return max(1, min(MAX_DIRTY, MAX_DIRTY_BYTES // (8 * self._spec.model.size)))

    @property
    def _rules(self) -> keyed.Rules:
        key, forget = self._spec.key, self._spec.inference.forget
        return keyed.Rules(forgetting.of(forget), None if key is None else key.expire_after)

    def _new_parts(self) -> Parts:
        index = self.partition.index
        return Parts(
            self._spec.model.size, self._spec.inference.by_time, lambda key: names.shard_of(self._spec, key) == index
        )

    def restore(self) -> Snapshot:
        """The newest manifest, and all keys up to it, each as its newest record has it."""
        found = super().restore()
        self._arena = Arena(self._spec.model.size)
        partition = Partition(names.topic(self._spec, "posterior"), self.partition.index)
        starts, ends = self._bus.starts(partition.topic), self._bus.ends(partition.topic)
        with self._bus.reader({partition: starts[partition.index]}) as reader:
            while reader.position(partition) < ends[partition.index]:
                for part in reader.poll(1.0).slices:
                    self._load(part.records)
        self._arena.published()
        if len(self._arena) != found.n_keys:
            raise Fatal(
                f"{partition}: the newest snapshot has {found.n_keys} keys and the log {len(self._arena)}. Was a part "
                "of the topic removed? Give the spec a new name to start over."
            )
        return found

    def _load(self, records: tuple[Record, ...]) -> None:
        """Takes in records of keys in their order; those of one run without tombstones at once."""
        run: list[tuple[key_records.Place, bytes]] = []
        for record in records:
            try:
                place = key_records.place_of(record.key)
                if place is not None and record.value is not None:
                    run.append((place, record.value))
                elif place is not None:
                    self._load_run(run)
                    run = []
                    if place.label in self._arena.rows:
                        self._arena.drop(place.label)
            except WireError as error:
                raise _unreadable(record.partition, error) from error
        try:
            self._load_run(run)
        except WireError as error:
            raise _unreadable(records[-1].partition, error) from error

    def _load_run(self, run: list[tuple[key_records.Place, bytes]]) -> None:
        if not run:
            return
        labels = [place.label for place, _ in run]
        found = key_records.decode(labels, [value for _, value in run], self._spec.model.size, self._schemas)
        if not self._spec.model.proper(found.numbers[:, key_records.NUMBERS :]).all():
            raise BadValue("a key has statistics that give no posterior")
        self._arena.load(labels, [place.clock for place, _ in run], found.numbers)

    def _fold(self, increment: Increment) -> None:
        self.snapshot, outcome = keyed.add(self._spec.model, self._arena, self.snapshot, increment, self._rules)
        self._metrics.outcome(outcome.value)
        self.urgent = self.urgent or not outcome.moved

    def commit(self, member: Member, now_ms: int) -> None:
        """As any shard, after some of the idle keys are dropped."""
        self.snapshot = keyed.expire(self._arena, self.snapshot, self._rules, self._most_dirty)
        super().commit(member, now_ms)
        self._arena.published()

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


def _unreadable(partition: Partition, error: WireError) -> Fatal:
    return Fatal(
        f"{partition}: a key of the posterior cannot be read ({error}). Starting over would throw the posterior away: "
        "run the version that wrote it (with the schema registry that it used), or give the spec a new name."
    )
