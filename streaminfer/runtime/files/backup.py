"""A posterior and what its master keeps beside it, as one file from which they can be restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus, BusError, Partition, Record, Unavailable, UnknownTopic
from streaminfer.bus.recorded import framing
from streaminfer.bus.recorded.bus import RecordedBus
from streaminfer.bus.recorded.framing import Contents, FileFault, contents_of
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.files.copy import Copy, portable
from streaminfer.runtime.files.snapshot_file import about
from streaminfer.runtime.files.writing import replace_file
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.manifests import whole
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.running.patience import naps
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec, meaning
from streaminfer.tables.draws import described as described_draws
from streaminfer.tables.table import Described
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.errors import WireError

KIND: Final = "backup"
TRIES: Final = 20
"""How often the topics are read again if a master writes meanwhile."""
PAUSE_S: Final = 0.1


class NothingToBackUp(Fatal):
    """There is no snapshot yet."""


class Kept(NamedTuple):
    """One shard as a file has it."""

    snapshot: Snapshot
    described: Described


class Backup:
    """What a file holds, read and checked as a master would restore it."""

    def __init__(self, spec: Spec, contents: Contents, name: str) -> None:
        """Raises Fatal if no master of the spec could restore it."""
        self.contents, self._spec = contents, spec
        bus = RecordedBus(contents, name)
        read = _folded if spec.sampling is None else _drawn
        try:
            self.shards = [read(spec, bus, index) for index in range(spec.shards)]
        except (WireError, DomainError, BusError) as error:
            raise Fatal(f"{name}: it cannot be restored: {error}") from error

    @property
    def snapshot(self) -> Snapshot:
        """All shards as one."""
        return whole(self._spec, [each.snapshot for each in self.shards])


def back_up(spec: Spec, bus: Bus, path: Path) -> Snapshot:
    """Writes the posterior as it is now to a file; raises NothingToBackUp, or Fatal if it could not be restored."""
    found = _read(spec, bus)
    newest = found.snapshot
    said = about(
        spec,
        KIND,
        version=newest.version,
        n_events=newest.n_events,
        created_at=newest.created_at,
        topic_id=newest.frontier.topic_id,
    )
    records = [record for each in found.contents.records.values() for record in each]
    replace_file(path, framing.encoded(said, found.contents.topics, records))
    return newest


def load(spec: Spec, path: Path) -> Backup:
    """A file that `back_up` wrote for this spec; raises Fatal or FileFault that says what is wrong with it."""
    contents = framing.read(path)
    said = contents.about
    if said.get("kind") != KIND:
        raise FileFault(f"{path}: is not a backup but a {said.get('kind')}: write one with `streaminfer backup`")
    if said.get("name") != spec.name:
        raise Fatal(f"{path}: is a backup of {said.get('name')!r}, and the spec is called {spec.name!r}")
    if said.get("fingerprint") != spec.fingerprint:
        raise Fatal(
            f"{path}: the backup was made with another spec (fingerprint {said.get('fingerprint')}, this one has "
            f"{spec.fingerprint}){_differences(spec, said)}. Restore it with the spec that it was made with"
        )
    return Backup(spec, contents, str(path))


def _differences(spec: Spec, said: Mapping[str, object]) -> str:
    text = said.get("spec")
    there = meaning.read(text.encode(errors="replace")) if isinstance(text, str) else None
    changed = [] if there is None else meaning.differences(there, spec.meaning)
    return f": {'; '.join(changed)}" if changed else ""


def _read(spec: Spec, bus: Bus) -> Backup:
    """A consistent state: if a master wrote while the topics were read, they are read again."""
    failure: Exception | None = None
    for _ in range(TRIES):
        try:
            ends = _still_ends(spec, bus)
        except UnknownTopic:
            break
        if ends is None:
            list(naps(PAUSE_S))
            continue
        if not all(end for partition, end in ends.items() if partition.topic == names.topic(spec, "posterior")):
            break
        try:
            return Backup(spec, _contents(spec, bus, ends), f"the posterior {spec.name!r}")
        except Fatal as error:  # compaction may have removed what newer records replace
            failure = error
    if failure is not None:
        raise failure
    if _is_missing(spec, bus):
        raise NothingToBackUp(f"no posterior {spec.name!r} on {bus} yet: there is nothing to back up")
    raise Unavailable(f"the posterior {spec.name!r} did not stand still for a moment: try again")


def _is_missing(spec: Spec, bus: Bus) -> bool:
    try:
        return not all(bus.ends(names.topic(spec, "posterior")).values())
    except UnknownTopic:
        return True


def _still_ends(spec: Spec, bus: Bus) -> dict[Partition, int] | None:
    """The ends of all partitions of the state between two commits; None if a commit came while they were asked for."""
    topics = names.state_topics(spec)
    before = _ends(bus, topics)
    if any(n for topic in topics for n in bus.hidden(topic).values()):
        return None
    return before if _ends(bus, topics) == before else None


def _ends(bus: Bus, topics: Sequence[str]) -> dict[Partition, int]:
    return {Partition(topic, index): end for topic in topics for index, end in bus.ends(topic).items()}


def _contents(spec: Spec, bus: Bus, ends: Mapping[Partition, int]) -> Contents:
    short = {names.topic(spec, name): name for name in names.declared(spec)}
    known = schemas.look_up(spec, bus, sorted({short[partition.topic] for partition in ends}))
    copy, topics = Copy(), dict[str, int]()
    for partition, end in ends.items():
        topics[partition.topic] = max(topics.get(partition.topic, 0), partition.index + 1)
        for records in _portions(bus, partition, end):
            copy.add(records)
    kept = (portable(copy.records(partition), short[partition.topic], known) for partition in ends)
    return contents_of({}, topics, chain.from_iterable(kept))


def _portions(bus: Bus, partition: Partition, end: int) -> Iterator[list[Record]]:
    with bus.reader({partition: bus.starts(partition.topic)[partition.index]}) as reader:
        while reader.position(partition) < end:
            for part in reader.poll(1.0).slices:
                yield [record for record in part.records if record.offset < end]


def _folded(spec: Spec, bus: RecordedBus, index: int) -> Kept:
    shard = Shard(spec, bus, index, MasterMetrics(CollectorRegistry(), spec.name), DECLARED)
    try:
        while not shard.restored():
            pass
        if shard.in_the_way or not shard.published.version:
            why = shard.in_the_way[-1].why if shard.in_the_way else "it has no snapshot"
            raise Fatal(f"{bus}: shard {index} cannot be restored as a whole: {why}. See `streaminfer repair`")
        return Kept(*shard.described())
    finally:
        shard.close()


def _drawn(spec: Spec, bus: RecordedBus, index: int) -> Kept:
    follower = Follower(spec, bus, index, DECLARED)
    try:
        found = follower.catch_up()
    finally:
        follower.close()
    if found is None:
        raise Fatal(f"{bus}: it has no whole snapshot. See `streaminfer repair`")
    return Kept(found, described_draws(spec, found))
