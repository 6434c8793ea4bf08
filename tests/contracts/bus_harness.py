"""What the contract suite of the bus needs of an implementation, and the table of implementations."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from streaminfer.bus.broker.settings import Address, Settings
from streaminfer.bus.broker.topics import CATALOG_AGE_S
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Bus, Output, Partition, Record
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import SimulatedBus


class Harness(Protocol):
    """One bus, as many connections to it as a test wants, and its time."""

    session_s: float
    url: str | None
    """What another process opens the same bus with; None if that is impossible."""

    def open(self) -> Bus:
        """A new connection, closed at the end of the test."""

    def advance(self, seconds: float) -> None:
        """Lets time pass for leases."""

    def settle(self) -> None:
        """Waits until every connection knows of partitions that another has added."""

    def compact(self, bus: Bus, topic: str) -> None:
        """Compacts a topic now, or waits until it is; only what one call published before another must be gone."""

    def close(self) -> None: ...


class EmbeddedHarness:
    """The embedded bus with a clock that jumps. The session is long, so that only jumps end leases."""

    session_s = 30.0

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "bus"
        self._skew = 0.0
        self._opened = ExitStack()
        self.url: str | None = f"embedded:{self._directory}"

    def open(self) -> Bus:
        return self._opened.enter_context(
            EmbeddedBus(self._directory, session_s=self.session_s, clock=lambda: time.time() + self._skew)
        )

    def advance(self, seconds: float) -> None:
        self._skew += seconds

    def settle(self) -> None:
        """There is one catalog."""

    def compact(self, bus: Bus, topic: str) -> None:
        assert isinstance(bus, EmbeddedBus)
        bus.compact(topic)

    def close(self) -> None:
        self._opened.close()


class SimulatedHarness:
    """The bus of the simulation without its faults: what the schedules prove rests on it keeping the contract."""

    session_s = 30.0
    url: str | None = None

    def __init__(self, directory: Path, markers: bool = False) -> None:
        self._clock = Clock(time.time())
        self._broker = Broker(self._clock, self.session_s, markers)
        self._opened = ExitStack()

    def open(self) -> Bus:
        return self._opened.enter_context(SimulatedBus(self._broker, wait=time.sleep))

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def settle(self) -> None:
        """There is one catalog."""

    def compact(self, bus: Bus, topic: str) -> None:
        self._broker.compact(topic)

    def close(self) -> None:
        self._opened.close()


class KafkaHarness:
    """A namespace of its own on a real broker; there time passes by itself."""

    session_s = 3.0

    def __init__(self, address: str) -> None:
        self._address = Address((address,), f"test-{uuid.uuid4().hex[:12]}")
        self._opened = ExitStack()
        self.url: str | None = f"kafka://{address}/{self._address.namespace}"

    def open(self) -> Bus:
        # A segment for each batch: only closed segments are compacted.
        settings = Settings(compacted={"segment.ms": "1", "min.cleanable.dirty.ratio": "0.001"})
        return self._opened.enter_context(KafkaBus(self._address, settings, session_s=self.session_s))

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def settle(self) -> None:
        time.sleep(CATALOG_AGE_S + 0.1)

    def compact(self, bus: Bus, topic: str) -> None:
        """Waits until each partition has, of each key, one record in closed segments and one in the open one."""
        deadline = time.monotonic() + 60
        while True:
            counts = Counter((record.partition, record.key) for record in read_all(bus, topic))
            if max(counts.values()) <= 2:
                return
            assert time.monotonic() < deadline, f"not compacted: {counts}"
            time.sleep(0.2)

    def close(self) -> None:
        self._opened.close()


HARNESSES: dict[str, Callable[[Path], Harness] | type[KafkaHarness]] = {
    "embedded": EmbeddedHarness,
    "simulated": SimulatedHarness,
    "simulated-markers": partial(SimulatedHarness, markers=True),
    "kafka": KafkaHarness,
}

PROCESS_HARNESSES: dict[str, Callable[[Path], Harness] | type[KafkaHarness]] = {
    "embedded": EmbeddedHarness,
    "kafka": KafkaHarness,
}
"""Those whose bus other processes can open."""


def fixture_over(harnesses: Mapping[str, Callable[[Path], Harness] | type[KafkaHarness]]) -> Any:
    """A fixture that gives each harness in turn."""

    @pytest.fixture(params=[pytest.param(h, id=name) for name, h in harnesses.items()])
    def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
        kafka = request.param is KafkaHarness
        made = KafkaHarness(request.getfixturevalue("kafka_address")) if kafka else request.param(tmp_path)
        try:
            yield made
        finally:
            made.close()

    return harness


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def outputs(topic: str, count: int, partition: int | None = None, prefix: str = "v") -> list[Output]:
    return [Output(topic, f"{prefix}{i}".encode(), partition=partition) for i in range(count)]


def read_all(bus: Bus, topic: str, begin: Mapping[int, int] | None = None) -> list[Record]:
    """Every record from the starts (or from `begin`) to the ends as they are now, partition by partition."""
    ends = bus.ends(topic)
    begin = bus.starts(topic) if begin is None else begin
    found: dict[int, list[Record]] = {index: [] for index in begin}
    deadline = time.monotonic() + 60
    with bus.reader({Partition(topic, index): position for index, position in begin.items()}) as reader:
        while any(reader.position(Partition(topic, index)) < ends[index] for index in begin):
            assert time.monotonic() < deadline, "the ends were not reached in time"
            for slice_ in reader.poll(1.0).slices:
                found[slice_.partition.index] += slice_.records
    return [record for index in sorted(found) for record in found[index]]
