"""The machine's clock is set forward or back: groups of the embedded bus go on, and what retention removes is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Member, Output, Partition, Position, Topic
from streaminfer.runtime import names
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.telemetry import MasterMetrics, WorkerMetrics
from tests.bus.test_cleanup import Clock
from tests.runtime.rig import poisson

MONTH = 30 * 86_400
WITHIN = 30
"""Seconds in which all goes on."""
P0 = Partition("t", 0)

Open = Callable[[], EmbeddedBus]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connect(tmp_path: Path, clock: Clock) -> Iterator[Open]:
    opened: list[EmbeddedBus] = []

    def make() -> EmbeddedBus:
        opened.append(EmbeddedBus(tmp_path, clock=clock))
        opened[-1].create([Topic("t", 1, "delete", 60_000)])
        return opened[-1]

    yield make
    for bus in opened:
        bus.close()


def seconds_until_owned(member: Member, clock: Clock) -> int:
    for second in range(1000):
        member.poll(0.0)
        if P0 in member.assignment:
            return second
        clock.now += 1
    raise AssertionError("never")


@pytest.mark.parametrize("step", [-MONTH, -60, -15, -5, 5, 60, MONTH])
def test_the_lease_of_a_dead_member_ends(connect: Open, clock: Clock, step: float) -> None:
    """A member that died with a lease that the present clock takes for a month."""
    dead = connect().member("g", ["t"])
    dead.poll(0.0)
    assert P0 in dead.assignment
    clock.now += step
    assert seconds_until_owned(connect().member("g", ["t"]), clock) <= WITHIN


@pytest.mark.parametrize("step", [-MONTH, -15, 60, MONTH])
def test_members_that_live_share_their_partitions_again(connect: Open, clock: Clock, step: float) -> None:
    members = [connect().member("g", ["t"]) for _ in range(2)]
    for member in members * 3:
        member.poll(0.0)
    clock.now += step
    for _ in range(WITHIN):
        for member in members:
            member.poll(0.0)
        clock.now += 1
    owners = [member for member in members if P0 in member.assignment]
    assert len(owners) == 1
    owners[0].commit({P0: Position(0)})


@pytest.mark.parametrize("step", [-0.5, -5])
def test_a_clock_that_is_put_right_by_seconds_ends_no_lease(connect: Open, clock: Clock, step: float) -> None:
    members = [connect().member("g", ["t"]) for _ in range(2)]
    for member in members * 3:
        member.poll(0.0)
    owner = next(member for member in members if P0 in member.assignment)
    clock.now += step
    for member in members * 3:
        polled = member.poll(0.0)
        assert (polled.assigned, polled.revoked) == ((), ())
    assert P0 in owner.assignment


def test_positions_of_a_group_may_be_kept_once_its_members_are_gone(connect: Open, clock: Clock) -> None:
    connect().member("g", ["t"]).poll(0.0)
    clock.now -= MONTH
    with connect().writer("w") as writer:
        writer.commit([], {P0: Position(0)}, "g")


def test_retention_says_what_nobody_has_read(connect: Open, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    bus = connect()
    bus.publish([Output("t", b"x", partition=0) for _ in range(10)])
    with closing(bus.member("readers", ["t"])) as member:
        member.poll(0.0)
        member.commit({P0: Position(4)})
    with bus.writer("marks") as writer:
        writer.commit([], {P0: Position(1)}, "marks")
    clock.now += MONTH
    with caplog.at_level(logging.WARNING):
        bus.retain()
        bus.retain()
    assert bus.starts("t") == {0: 10}
    (told,) = [record.getMessage() for record in caplog.records]
    assert told == (
        "t-0: retention removed the positions from 4 to 10, which group readers has not committed as read. Is the "
        "clock of this machine right?"
    )


def test_what_was_read_goes_without_a_word(connect: Open, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    bus = connect()
    bus.publish([Output("t", b"x", partition=0) for _ in range(10)])
    with closing(bus.member("readers", ["t"])) as member:
        member.poll(0.0)
        member.commit({P0: Position(10)})
    clock.now += MONTH
    with caplog.at_level(logging.WARNING):
        bus.retain()
    assert caplog.records == []


@pytest.mark.parametrize("step", [-MONTH, MONTH])
def test_services_go_on_and_what_is_gone_is_counted(tmp_path: Path, clock: Clock, step: float) -> None:
    """After dead ones with leases of before the step; after one forward, all events are older than the retention."""
    spec = poisson()
    topic, passed = names.data_topic(spec), Clock()
    with EmbeddedBus(tmp_path / "bus", clock=clock) as bus, EmbeddedBus(tmp_path / "bus", clock=clock) as dead:
        names.create_topics(spec, bus)
        bus.publish([Output(topic, b'{"k": 1}', partition=0) for _ in range(8)])
        registry = CollectorRegistry()
        metrics = MasterMetrics(registry, "demo")
        first = Master(spec, dead, passed, metrics, wall=clock)
        for _ in range(3):
            first.step(0.0)
        dead.member(names.worker_group(spec), [topic]).poll(0.0)
        clock.now += step
        bus.retain()
        bus.publish([Output(topic, b'{"k": 100}', partition=0) for _ in range(8)])
        master = Master(spec, bus, passed, metrics, wall=clock)
        worker = Worker(spec, bus, passed, "w", WorkerMetrics(registry, "demo"))
        with closing(Follower(spec, bus)) as follower:
            for _ in range(WITHIN):
                for service in (worker, master):
                    service.step(0.0)
                clock.now += 1
                passed.now += 1
            found = follower.catch_up()
        worker.close()
        master.close()
    assert found is not None
    assert found.frontier.positions == {0: 16}
    assert (found.n_events, found.counts.n_lost) == ((8, 8) if step > 0 else (16, 0))
