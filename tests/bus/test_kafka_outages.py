"""The Kafka bus when its broker stops, is killed and comes back; nothing waits for ever."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Bus, Fenced, Output, Partition, Poll, Position, Topic, Unavailable
from tests.faults.programs import wait_for
from tests.kafka_broker import LocalBroker, local_broker

pytestmark = pytest.mark.xdist_group("outages")

DEADLINE_S = 4.0
P0 = Partition("t", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with local_broker() as started:
        yield started


@pytest.fixture
def bus(broker: LocalBroker) -> Iterator[KafkaBus]:
    address = Address((broker.address,), uuid.uuid4().hex[:8])
    with KafkaBus(address, session_s=6, deadline_s=DEADLINE_S) as opened:
        opened.create([Topic("t", 1)])
        yield opened


@contextmanager
def stopped(broker: LocalBroker) -> Iterator[None]:
    """Until it goes on none of its threads runs: the signal alone leaves them time for an answer on a busy machine."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: states(broker.pid) == {"T"}, "all threads of the broker are stopped", interval=0.01)
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def states(pid: int) -> set[str]:
    """What the threads of a process do, in the letters of /proc."""
    return {path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")}


def eventually(attempt: Callable[[], object], seconds: float) -> None:
    """Tries again until it works, as services do."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            attempt()
        except Unavailable:
            assert time.monotonic() < deadline, f"still unavailable after {seconds} s"
            time.sleep(0.2)
        else:
            return


def test_nothing_waits_longer_than_twice_the_deadline_for_a_broker_that_is_stopped(
    broker: LocalBroker, bus: KafkaBus
) -> None:
    bus.publish([Output("t", b"before")])
    writer, reader = bus.writer("w"), bus.reader({P0: 0})
    writer.commit([Output("t", b"before")], {P0: Position(1)}, "g")
    attempts: dict[str, Callable[[], object]] = {
        "publish": lambda: bus.publish([Output("t", b"x")]),
        "commit": lambda: writer.commit([Output("t", b"x")], {P0: Position(2)}, "g"),
        "ends": lambda: bus.ends("t"),
        "committed": lambda: bus.committed("g"),
        "writer": lambda: bus.writer("other"),
    }
    with stopped(broker):
        for name, attempt in attempts.items():
            began = time.monotonic()
            with suppress(Unavailable):
                pytest.fail(f"{name}: {attempt()}")
            assert time.monotonic() - began < 2 * DEADLINE_S, name
        began = time.monotonic()
        poll_or_unavailable(reader.poll)
        assert time.monotonic() - began < 2 * DEADLINE_S
    eventually(lambda: bus.publish([Output("t", b"after")]), 30)
    eventually(lambda: bus.ends("t"), 30)


def poll_or_unavailable(poll: Callable[[float], Poll]) -> Poll:
    try:
        return poll(0.5)
    except Unavailable:
        return Poll()


def test_a_writer_whose_commit_failed_is_done_and_a_new_one_goes_on(broker: LocalBroker, bus: KafkaBus) -> None:
    writer = bus.writer("w")
    writer.commit([Output("t", b"1")], {P0: Position(1)}, "g")
    with stopped(broker), pytest.raises(Unavailable):
        writer.commit([Output("t", b"2")], {P0: Position(2)}, "g")
    for _ in range(2):
        with pytest.raises(Fenced, match="new writer"):
            writer.commit([Output("t", b"3")], {P0: Position(3)}, "g")

    def again() -> None:
        with bus.writer("w") as newer:
            newer.commit([Output("t", b"4")], {P0: Position(4)}, "g")

    eventually(again, 30)
    assert bus.committed("g") == {P0: Position(4)}
    assert read(bus)[-1] == b"4"
    assert b"3" not in read(bus)


def read(bus: Bus) -> list[bytes | None]:
    end, found = bus.ends("t")[0], []
    with bus.reader({P0: 0}) as reader:
        deadline = time.monotonic() + 20
        while reader.position(P0) < end:
            assert time.monotonic() < deadline
            found += [record.value for slice_ in reader.poll(1).slices for record in slice_.records]
    return found


def test_everything_goes_on_when_a_killed_broker_is_back(broker: LocalBroker, bus: KafkaBus) -> None:
    bus.publish([Output("t", str(i).encode()) for i in range(10)])
    reader, member = bus.reader({P0: 0}), bus.member("g", ["t"])
    while P0 not in member.assignment:
        member.poll(0.1)
    member.seek(P0, 0)
    seen: dict[str, list[bytes | None]] = {"reader": [], "member": []}

    def drain(seconds: float, until: bytes) -> None:
        deadline = time.monotonic() + seconds
        while not all(until in values for values in seen.values()):
            assert time.monotonic() < deadline, f"not read in {seconds} s: {seen}"
            for name, each in (("reader", reader), ("member", member)):
                polled = poll_or_unavailable(each.poll)
                for partition in polled.assigned:
                    member.seek(partition, len(seen["member"]))
                seen[name] += [record.value for slice_ in polled.slices for record in slice_.records]

    drain(30, b"9")
    broker.kill()
    with pytest.raises(Unavailable):
        bus.publish([Output("t", b"lost or not")])
    broker.start()
    began = time.monotonic()
    eventually(lambda: bus.publish([Output("t", b"back")]), 30)
    drain(30, b"back")
    assert time.monotonic() - began < 30
    kept = read(bus)
    assert seen == {"reader": kept, "member": kept}


def test_nobody_at_home_is_unavailable_in_time() -> None:
    began = time.monotonic()
    with KafkaBus(Address(("127.0.0.1:1",)), deadline_s=1) as bus:
        for attempt in (bus.topics, lambda: bus.publish([Output("t", b"x")]), lambda: bus.writer("w")):
            with pytest.raises(Unavailable):
                attempt()
    assert time.monotonic() - began < 3 * 2 + 10  # which a busy machine may take
