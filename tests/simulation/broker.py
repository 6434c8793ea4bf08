"""A log broker in memory, deterministic: what survives when simulated processes die."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import BusError, OutOfRange, Output, Partition, Positions, TooLarge, Topic, UnknownTopic
from tests.simulation import declarations
from tests.simulation.groups import Group
from tests.simulation.log import Log, size_of

MAX_NOTE = 4000


class Clock:
    """Time that moves only when told to."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Broker:
    """All that is durable. `markers`: a commit leaves a hole behind it, as Kafka's transaction markers do."""

    max_record_bytes = 1 << 20

    def __init__(self, clock: Callable[[], float], session_s: float = 10.0, markers: bool = False) -> None:
        self.clock, self.session_s, self.markers = clock, session_s, markers
        self.topics: dict[str, Topic] = {}
        self.epochs: dict[str, int] = {}
        self.on_append: Callable[[], None] = lambda: None
        self._logs: dict[str, list[Log]] = {}
        self._groups: dict[str, Group] = {}
        self._spread = 0
        self._ids: dict[str, str] = {}
        self._made = 0

    def create(self, topics: Sequence[Topic]) -> None:
        """Makes what is missing, all or nothing."""
        declarations.check(topics, self.topics)
        for topic in topics:
            if topic.name not in self.topics:
                self._made += 1
                self._ids[topic.name] = f"{topic.name}#{self._made}"
            self.topics[topic.name] = topic
            logs = self._logs.setdefault(topic.name, [])
            logs += [Log(Partition(topic.name, index)) for index in range(len(logs), topic.partitions)]
        for group in self._groups.values():
            group.rebalance()

    def delete(self, topic: str) -> None:
        """Removes a topic with its records, and what groups have kept of it."""
        self.logs(topic)
        del self.topics[topic], self._logs[topic], self._ids[topic]
        for group in self._groups.values():
            group.positions = {place: at for place, at in group.positions.items() if place.topic != topic}
            group.rebalance()

    def remake(self, topic: str) -> None:
        """Empties a topic and gives it another id: deleted and made again so fast that its readers never notice."""
        for log in self.logs(topic):
            log.start = log.end = 0
            log.records = []
        self._made += 1
        self._ids[topic] = f"{topic}#{self._made}"

    def topic_id(self, topic: str) -> str:
        """The id of a topic, which one that is made again under its name does not have."""
        self.logs(topic)
        return self._ids[topic]

    def logs(self, topic: str) -> list[Log]:
        """A topic's partitions in order; raises UnknownTopic."""
        logs = self._logs.get(topic)
        if logs is None:
            raise UnknownTopic(f"topic {topic!r} does not exist")
        return logs

    def log(self, partition: Partition) -> Log:
        logs = self.logs(partition.topic)
        if not 0 <= partition.index < len(logs):
            raise UnknownTopic(f"there is no partition {partition}")
        return logs[partition.index]

    def append(self, outputs: Sequence[Output], commit: bool) -> list[int]:
        """All or nothing; a commit may leave a marker's hole after each partition it wrote."""
        places = [self._place(output) for output in outputs]
        now_ms = int(self.clock() * 1000)
        offsets = [log.append(output, now_ms) for log, output in zip(places, outputs, strict=True)]
        if commit and self.markers:
            for log in set(places):
                log.end += 1
        if places:
            self.on_append()
        return offsets

    def pretend(self, outputs: Sequence[Output]) -> list[int]:
        """The offsets that an append would have given; writes nothing."""
        ends: dict[Log, int] = {}
        offsets = []
        for output in outputs:
            log = self._place(output)
            ends[log] = ends.get(log, log.end) + 1
            offsets.append(ends[log] - 1)
        return offsets

    def _place(self, output: Output) -> Log:
        """The partition of an output; raises what a broker would refuse it for."""
        logs, topic = self.logs(output.topic), self.topics[output.topic]
        if output.key is None and topic.cleanup == "compact":
            raise BusError(f"topic {topic.name!r} is compacted: every record must have a key")
        size = size_of(output)
        if size > topic.max_bytes:
            raise TooLarge(f"a record for {topic.name!r} has {size} bytes, the topic accepts at most {topic.max_bytes}")
        if output.partition is not None:
            return self.log(Partition(topic.name, output.partition))
        if output.key is not None:
            return logs[partition_of(output.key, len(logs))]
        self._spread += 1
        return logs[self._spread % len(logs)]

    def delete_before(self, partition: Partition, position: int) -> None:
        log = self.log(partition)
        if self.topics[partition.topic].cleanup == "compact":
            raise BusError(f"topic {partition.topic!r} is compacted: it is not cut at its front")
        if not 0 <= position <= log.end:
            raise OutOfRange(partition, position, log.start, log.end)
        log.trim(position)

    def compact(self, topic: str) -> None:
        logs = self.logs(topic)
        if self.topics[topic].cleanup != "compact":
            raise BusError(f"topic {topic!r} is not a compacted one")
        for log in logs:
            log.compact(int(self.clock() * 1000))

    def group(self, name: str) -> Group:
        if name not in self._groups:
            self._groups[name] = Group(name, self.topics, self.clock, self.session_s)
        return self._groups[name]

    def check_positions(self, positions: Positions) -> None:
        """Raises ValueError and UnknownTopic for what no group can keep."""
        for partition, (offset, note) in positions.items():
            self.log(partition)
            if offset < 0:
                raise ValueError(f"the position of {partition} is {offset}, it must not be negative")
            if len(note) > MAX_NOTE:
                raise ValueError(f"the note at {partition} has {len(note)} characters, at most {MAX_NOTE} are kept")
