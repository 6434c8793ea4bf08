"""Golden buses: how one is made, and how it is brought back to be continued, of each kind of bus."""

from __future__ import annotations

import sqlite3
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Bus, Output, Partition, Record, Topic
from tests.contracts.bus_harness import read_all
from tests.golden import driving, records
from tests.golden.playing import BEGIN, LATER, Player, Story, place, written_topics
from tests.simulation.broker import Clock

Lines = list[list[Any]]
DATABASE = "bus.sqlite3"


class Buses(Protocol):
    """One kind of bus."""

    name: str

    def made(self, story: Story, path: Path | None) -> Lines:
        """Writes a new bus, keeps it at `path`, and returns what services wrote."""

    def held(self, story: Story, path: Path) -> Lines:
        """What services had written on the bus at `path`."""

    def continued(self, story: Story, path: Path) -> Lines:
        """Brings back the bus at `path` and continues it; returns what services wrote."""


class Embedded:
    """The SQLite file itself is kept. Its clock is the story's, so that timestamps of records are the same too."""

    name = "embedded"

    def made(self, story: Story, path: Path | None) -> Lines:
        clock = Clock(BEGIN)
        with _folder() as folder:
            with EmbeddedBus(folder, clock=clock) as bus:
                bus.create(driving.topics(story.spec))
                written = Player(story, bus, clock, compacts=True).write()
            if path is not None:
                with closing(sqlite3.connect(folder / DATABASE)) as connection:
                    connection.execute("VACUUM")
                records.save(path, (folder / DATABASE).read_bytes())
        return records.lines_of(written)

    def held(self, story: Story, path: Path) -> Lines:
        with self._restored(story, path, Clock(LATER)) as bus:
            return records.lines_of(each for topic in written_topics(story.spec) for each in read_all(bus, topic))

    def continued(self, story: Story, path: Path) -> Lines:
        clock = Clock(LATER)
        with self._restored(story, path, clock) as bus:
            return records.lines_of(Player(story, bus, clock, compacts=True).go_on())

    @contextmanager
    def _restored(self, story: Story, path: Path, clock: Clock) -> Iterator[EmbeddedBus]:
        with _folder() as folder:
            (folder / DATABASE).write_bytes(records.load(path))
            with EmbeddedBus(folder, clock=clock) as bus:
                complete(bus, story)
                yield bus


class Kafka:
    """All records are kept with their offsets, and written again at the same offsets.

    A broker stamps records with its own time and chooses the id of a topic itself. So timestamps of what services write
    are left out, and `SteadyBus` answers with an id of its own.
    """

    name = "kafka"

    def __init__(self, address: str) -> None:
        self._address = address

    def made(self, story: Story, path: Path | None) -> Lines:
        clock, topics = Clock(BEGIN), [replace(topic, retention_ms=None) for topic in driving.topics(story.spec)]
        with self._open() as bus:
            bus.create(topics)
            written = Player(story, bus, clock).write()
            if path is not None:
                heads = [{**asdict(topic), "ends": list(bus.ends(topic.name).values())} for topic in topics]
                found = [record for topic in topics for record in read_all(bus, topic.name)]
                records.save_lines(path, [heads, *records.lines_of(found)])
        return records.lines_of(written, timestamps=False)

    def held(self, story: Story, path: Path) -> Lines:
        _, *lines = records.load_lines(path)
        found = [each for each in records.records_of(lines) if each.partition.topic in written_topics(story.spec)]
        return records.lines_of(sorted(found, key=place), timestamps=False)

    def continued(self, story: Story, path: Path) -> Lines:
        heads, *lines = records.load_lines(path)
        with self._open() as bus:
            restore(bus, heads, records.records_of(lines))
            complete(bus, story)
            return records.lines_of(Player(story, bus, Clock(LATER)).go_on(), timestamps=False)

    def _open(self) -> KafkaBus:
        return KafkaBus(Address((self._address,), f"golden-{uuid.uuid4().hex[:12]}"))


def complete(bus: Bus, story: Story) -> None:
    """Makes the topics that there were not yet when the bus was written, as every service does when it starts."""
    there = bus.topics()
    bus.create([topic for topic in driving.topics(story.spec) if topic.name not in there])


def restore(bus: Bus, heads: Iterable[dict[str, Any]], held: Iterable[Record]) -> None:
    """Writes records to the offsets that they had. The hole after a transaction is made by a transaction."""
    ends: dict[Partition, int] = {}
    for head in heads:
        topic = Topic(**{name: value for name, value in head.items() if name != "ends"})
        bus.create([topic])
        ends |= {Partition(topic.name, index): end for index, end in enumerate(head["ends"])}
    with bus.writer("golden") as writer:
        for partition, group in groupby(held, key=lambda record: record.partition):
            found = list(group)
            for run, following in _runs(found, ends[partition]):
                assert following - run[-1].offset in {1, 2}, f"{partition}: more than a marker after {run[-1].offset}"
                outputs = [
                    Output(partition.topic, each.value, each.key, partition.index, each.headers, each.timestamp)
                    for each in run
                ]
                marked = following - run[-1].offset == 2
                placed = writer.commit(outputs) if marked else bus.publish(outputs)
                assert placed == [each.offset for each in run], f"{partition}: offsets differ"
    for partition, end in ends.items():
        assert bus.ends(partition.topic)[partition.index] == end, f"{partition} does not end at {end}"


def _runs(found: list[Record], end: int) -> Iterator[tuple[list[Record], int]]:
    """Records without a hole between them, each with the offset of what follows it."""
    run: list[Record] = []
    for record, following in zip(found, [*(each.offset for each in found[1:]), end], strict=True):
        run.append(record)
        if following != record.offset + 1 or record is found[-1]:
            yield run, following
            run = []


@contextmanager
def _folder() -> Iterator[Path]:
    """In memory if there is such a place: nothing here is about disks, and each commit waits for one."""
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
