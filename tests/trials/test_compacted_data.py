"""Events on a compacted topic: what compaction removed before it was read does not count, and holes are not events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streaminfer.bus.broker.settings import Settings, parse_address
from streaminfer.bus.connect import open_bus
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Bus, Output, Partition, Topic
from tests.faults.buses import kind
from tests.faults.programs import Programs, document, n_events, wait_for
from tests.integration.existing import Place

KEYS = 40
TOPIC = Topic("orders", 3, "compact")
Events = dict[tuple[int, int], int]
"""The counts of events by partition and offset."""


def quick(url: str) -> Bus:
    """A bus whose new topics are compacted soon. On Kafka that is a segment for each batch: only closed ones are."""
    if kind(url) == "embedded":
        return open_bus(url)
    settings = Settings(compacted={"segment.ms": "1", "min.cleanable.dirty.ratio": "0.001"})
    return KafkaBus(parse_address(url.removeprefix("kafka:")), settings)


class Compacted(Place):
    """The compacted topic of another program, in which each key has one partition."""

    def __init__(self, folder: Path, url: str) -> None:
        with quick(url) as bus:
            bus.create([TOPIC])
        super().__init__(folder, url, partitions=TOPIC.partitions, cleanup="compact")

    def send(self, rounds: int) -> None:
        """A new event of every key, N times, each round in batches of its own."""
        for turn in range(rounds):
            for index in range(TOPIC.partitions):
                keys = range(index, KEYS, TOPIC.partitions)
                self.publish(*(Output("orders", self.event((turn + i) % 7), b"%d" % i, index) for i in keys))

    def events(self) -> Events:
        """All that can be read now."""
        ends, found = self.bus.ends("orders"), Events()
        with self.bus.reader({Partition("orders", index): 0 for index in ends}) as reader:
            while any(reader.position(Partition("orders", index)) < end for index, end in ends.items()):
                for part in reader.poll(1.0).slices:
                    for record in part.records:
                        count = json.loads(record.value or b"")["order"]["items"]
                        found[part.partition.index, record.offset] = count
        return found

    def compacted(self) -> Events:
        """What is left when compaction has done its work: few events of each key, and no fewer a moment later."""
        if isinstance(self.bus, EmbeddedBus):
            self.bus.compact("orders")
        wait_for(lambda: len(self.events()) <= 2 * KEYS, "the topic is compacted")
        while (found := self.events()) != (time.sleep(3) or self.events()):
            pass
        return found

    def look(self) -> dict[str, Any]:
        found = document(self.spec_file, self.url)
        assert (found["n_lost"], found["n_dead_lettered"], found["n_rejected"]) == (0, 0, 0)
        return found

    def reached(self) -> bool:
        """Whether the frontier is at the ends of the log."""
        return self.look()["frontier"] == {f"orders-{i}": end for i, end in self.bus.ends("orders").items()}


@pytest.fixture
def place(bus_url: str, tmp_path: Path) -> Iterator[Compacted]:
    with closing(Compacted(tmp_path, bus_url)) as made:
        yield made


@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_event_that_compaction_left_is_absorbed_once(programs: Programs, place: Compacted) -> None:
    place.send(10)
    absorbed = place.compacted()
    assert len(absorbed) < len(place.good) / 4
    programs.run("up", place.spec_file, "--workers", 2, "--until-idle", "--bus", place.url)
    assert place.look()["natural"] == [1 + sum(absorbed.values()), 1 + len(absorbed)]

    ends = place.bus.ends("orders")
    place.send(10)  # their compaction removes what is absorbed, and leaves holes on both sides of the frontier
    left = {where: count for where, count in place.compacted().items() if where[1] >= ends[where[0]]}
    absorbed |= left
    programs.run("up", place.spec_file, "--workers", 2, "--until-idle", "--bus", place.url)
    assert place.look()["natural"] == [1 + sum(absorbed.values()), 1 + len(absorbed)]
    assert place.reached()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_compaction_while_events_are_read(programs: Programs, place: Compacted) -> None:
    """A reader in time has them all; none has one twice, and what compaction takes is not a loss of retention."""
    up = programs.start("up", place.spec_file, "--workers", 2, "--bus", place.url)
    place.send(1)
    wait_for(lambda: n_events(place.spec_file, place.url) > 0, "the first events are absorbed")
    for _ in range(10):
        place.send(5)
        if isinstance(place.bus, EmbeddedBus):
            place.bus.compact("orders")
    left = place.compacted()
    wait_for(place.reached, "the frontier is at the ends of the log")
    assert up.end() == 0, up.err
    found = place.look()
    assert len(left) <= found["n_events"] <= len(place.good)
    assert found["natural"][1] == 1 + found["n_events"]
    assert sum(left.values()) <= found["natural"][0] - 1 <= sum(place.good)
