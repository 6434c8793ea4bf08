"""Puts a backup back on a bus: as the next snapshot, above all that is there, which its master then goes on from."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus, Fenced, Output, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.files.backup import Backup
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.shards import rows_of
from streaminfer.runtime.owning.manifest import ManifestWriter
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.snapshots import MANIFEST

PORTION: Final = 5000
"""Records of one transaction; the last one has the manifest."""
PORTION_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """What is on the bus in the place of a shard."""

    newest: Snapshot | None
    """Its newest whole snapshot."""
    version: int
    """Nothing there has a higher one."""


def restore(spec: Spec, bus: Bus, backup: Backup, new_log: bool) -> Snapshot:
    """Writes a backup, and what was written. Raises Fatal if the bus has a newer posterior, or another data topic.

    With `new_log` the posterior goes on with whatever the data topic has, from its start.
    """
    known = schemas.prepare(spec, bus, "restore")
    names.check_data_topic(spec, bus)
    if new_log:
        _check_new_log(spec)
    else:
        _check_log(spec, bus, backup.snapshot)
    with ExitStack() as stack:
        shards = [stack.enter_context(closing(_Place(spec, bus, index, known))) for index in range(spec.shards)]
        for place, kept in zip(shards, backup.shards, strict=True):
            place.check(kept.snapshot)
        written = [place.write(backup, new_log) for place in shards]
    return written[0]


def _check_log(spec: Spec, bus: Bus, snapshot: Snapshot) -> None:
    learned, topic = snapshot.frontier.topic_id, names.data_topic(spec)
    found = bus.topic_id(topic)
    if learned not in {"", found}:
        raise Fatal(
            f"{topic}: the backup has learned from another topic of this name (its id is {found}, that of the backup "
            f"{learned}), so its frontier is not valid here. With --new-log the posterior is restored and learns all "
            "that this topic has, from its start; use it only if the backup has learned none of these events"
        )


def _check_new_log(spec: Spec) -> None:
    forget = spec.inference.forget
    if spec.sampling is not None or spec.inference.n_epochs > 1 or (forget is not None and spec.inference.windowed):
        raise Fatal(
            f"{spec.name}: --new-log is not possible with a sampler, several epochs or a window: what they keep "
            "belongs to positions of the old log"
        )


class _Place:
    """A shard's partitions on the bus, which no master can write any more."""

    def __init__(self, spec: Spec, bus: Bus, index: int, known: Schemas) -> None:
        self._spec, self._bus, self._index, self._schemas = spec, bus, index, known
        self._posterior = names.topic(spec, "posterior")
        self._state = [Partition(topic, index) for topic in names.state_topics(spec)]
        self.found = self._look()
        self._owner = Owner(bus, names.master_writer(spec, index), self._state)

    def _look(self) -> Found:
        follower = Follower(self._spec, self._bus, self._index, self._schemas, rows_of(self._spec)[self._index])
        with closing(follower):
            newest = follower.catch_up()
        if self._spec.sampling is not None:
            end = self._bus.ends(self._posterior)[self._index]
            return Found(newest, end if newest is None or follower.in_the_way else newest.version)
        metrics = MasterMetrics(CollectorRegistry(), self._spec.name)
        shard = Shard(self._spec, self._bus, self._index, metrics, self._schemas, start_over=True)
        with closing(shard):
            while not shard.restored():
                pass
            return Found(newest, shard.published.version)

    def check(self, backup: Snapshot) -> None:
        """Raises Fatal if what is there is not older than the backup."""
        there = self.found.newest
        if there is not None and there.version >= backup.version:
            raise Fatal(
                f"{self._posterior}-{self._index}: the posterior on the bus is not older than the backup: version "
                f"{there.version} with {counted(there.n_events, 'event')}, and the backup has version {backup.version} "
                f"with {counted(backup.n_events, 'event')}. Nothing was changed. To go back, restore it on another bus"
            )

    def write(self, backup: Backup, new_log: bool) -> Snapshot:
        """Takes away what is there and writes the shard; what was written."""
        kept, above = backup.shards[self._index], self.found.version
        version = kept.snapshot.version if above < kept.snapshot.version else above + 1
        frontier = Frontier() if new_log else kept.snapshot.frontier
        snapshot = replace(
            kept.snapshot,
            version=version,
            frontier=frontier,
            read_to=self._read_to(),
            created_at=int(time.time() * 1000),
        )
        manifest = ManifestWriter(self._spec, self._bus, self._index, self._schemas).outputs(snapshot, kept.described)
        beside = [record for partition in self._state for record in _beside(backup, partition)]
        try:
            for portion in _portions([*self._tombstones(beside), *self._outputs(beside, version)]):
                self._owner.publish(portion, {}, None)
            self._owner.commit(manifest, {}, None)
        except Fenced as error:
            raise Fatal(f"{self._posterior}: a master has taken over meanwhile: stop it first ({error})") from error
        return snapshot

    def _read_to(self) -> int:
        """From here on increments are folded; those before it are made again, as the frontier says."""
        if self._spec.sampling is not None:
            return 0
        return self._bus.ends(names.topic(self._spec, "increments"))[self._index]

    def _outputs(self, records: Iterable[Record], version: int) -> Iterator[Output]:
        """Rows and what is kept beside them, as of a version that is above all that is there."""
        short = {names.topic(self._spec, name): name for name in names.declared(self._spec)}
        for record in records:
            topic = short[record.partition.topic]
            value = DECLARED.decode(topic, record.value)
            value["version"] = version
            data = self._schemas.encode(topic, value)
            yield Output(record.partition.topic, data, record.key, self._index, record.headers)

    def _tombstones(self, records: Iterable[Record]) -> Iterator[Output]:
        """For what is there and not in the backup."""
        written = {(record.partition.topic, record.key) for record in records}
        for partition in self._state:
            for key in sorted(self._keys(partition)):
                if (partition.topic, key) not in written and key != MANIFEST:
                    yield Output(partition.topic, None, key, self._index)

    def _keys(self, partition: Partition) -> set[bytes]:
        """Those of records that are not removed, whatever they are."""
        found: set[bytes] = set()
        end = self._bus.ends(partition.topic)[partition.index]
        with self._bus.reader({partition: self._bus.starts(partition.topic)[partition.index]}) as reader:
            while reader.position(partition) < end:
                for record in (each for part in reader.poll(1.0).slices for each in part.records):
                    key = record.key or b""
                    found.add(key) if record.value is not None else found.discard(key)
        return found

    def close(self) -> None:
        self._owner.close()


def _beside(backup: Backup, partition: Partition) -> Iterator[Record]:
    """All records of a partition but those of its manifest."""
    statistics = not partition.topic.endswith(".posterior")
    for record in backup.contents.records.get(partition, ()):
        if statistics or (record.key or b"").startswith(key_records.PREFIX):
            yield record


def _portions(outputs: Iterable[Output]) -> Iterator[list[Output]]:
    portion, size = list[Output](), 0
    for output in outputs:
        portion.append(output)
        size += len(output.value or b"") + len(output.key or b"")
        if len(portion) >= PORTION or size >= PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
