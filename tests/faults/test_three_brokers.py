"""Three brokers with three copies of everything are bounced in turn, and their clients too; the posterior stays exact.

The matrix is that of Kafka's own system test of transactions (tests/kafkatest/tests/core/transactions_test.py): clean
or hard bounces, of brokers or of clients, while a copy with exact answers runs.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Fenced, Member, Partition, Topic, Unavailable
from tests.brokers.local import Cluster, three_brokers
from tests.faults.answers import linear_regression
from tests.faults.flowing import Flow
from tests.faults.programs import Programs, is_running, services, wait_for

pytestmark = [pytest.mark.xdist_group("three brokers"), pytest.mark.timeout(900)]
LONG = pytest.mark.long

ROWS_OF_A_BOUNCE = 1000
SERVICES = {"svb-worker": 2, "master": 1}
P0 = Partition("t", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with three_brokers() as started:
        yield started


def bounce_brokers(cluster: Cluster, flow: Flow, clean: bool) -> None:
    for node in cluster.nodes:
        flow.moves(ROWS_OF_A_BOUNCE)
        node.stop() if clean else node.kill()
        node.start()


def bounce_clients(cluster: Cluster, flow: Flow, clean: bool) -> None:
    """As many of every service as run; `up` starts them again."""
    for service, n in SERVICES.items():
        for _ in range(n):
            flow.moves(ROWS_OF_A_BOUNCE // 2)
            wait_for(lambda: services(flow.up.pid, service), f"a {service} runs")  # noqa: B023
            pid = services(flow.up.pid, service)[0]
            os.kill(pid, signal.SIGTERM if clean else signal.SIGKILL)
            wait_for(lambda: not is_running(pid), f"a {service} ends")  # noqa: B023


def begin(programs: Programs, cluster: Cluster, name: str, bounces: int) -> Flow:
    case = linear_regression((bounces + 1) * ROWS_OF_A_BOUNCE)
    return Flow(programs, f"kafka://{cluster.address}/{name}", case, name)


def test_a_broker_and_the_clients_are_bounced_hard(programs: Programs, cluster: Cluster) -> None:
    flow = begin(programs, cluster, "pair", 3)
    flow.moves(ROWS_OF_A_BOUNCE)
    cluster.nodes[0].kill()
    bounce_clients(cluster, flow, clean=False)
    cluster.nodes[0].start()
    flow.finish()


def test_a_member_outlives_the_move_of_its_coordinator(cluster: Cluster) -> None:
    """kafka-python asks the old one for ever, which knows of no members."""
    servers = tuple(cluster.address.split(","))
    with KafkaBus(Address(servers, "moved")) as bus:
        bus.create([Topic("t", 1)])
        with bus.member("g", ["t"], "one") as member:
            settle(member)
            coordinator = bus._connection.ask(
                "finding a coordinator", lambda admin: admin._manager.run(admin._find_coordinator_id, "moved.g")
            )
            node = cluster.nodes[coordinator - 1]
            node.stop()
            node.start()
            settle(member)


def settle(member: Member) -> None:
    """Polls, as services do, until the member has its partition and heard nothing bad for a while."""
    deadline, quiet_since = time.monotonic() + 60, time.monotonic()
    while P0 not in member.assignment or time.monotonic() < quiet_since + 3:
        assert time.monotonic() < deadline, "the member does not come to rest"
        try:
            if P0 in member.poll(0.2).assigned:
                member.seek(P0, 0)
        except (Fenced, Unavailable):
            quiet_since = time.monotonic()


@LONG
@pytest.mark.parametrize("clean", [True, False], ids=["clean_bounce", "hard_bounce"])
@pytest.mark.parametrize("target", [bounce_brokers, bounce_clients], ids=["brokers", "clients"])
def test_the_matrix_of_bounces(programs: Programs, cluster: Cluster, target: object, clean: bool) -> None:
    assert callable(target)
    flow = begin(programs, cluster, f"{target.__name__}-{clean}".lower().replace("_", "-"), 8)
    for _ in range(2):
        target(cluster, flow, clean)
    flow.finish()


@LONG
def test_two_of_three_brokers_away_stop_everything_for_a_while_and_nothing_for_good(
    programs: Programs, cluster: Cluster
) -> None:
    flow = begin(programs, cluster, "two-away", 4)
    flow.moves(ROWS_OF_A_BOUNCE)
    for node in cluster.nodes[:2]:
        node.kill()
    flow.let(ROWS_OF_A_BOUNCE)
    time.sleep(5)  # the subscriber may still show what it has got
    seen, away_since = flow.watcher.newest, time.monotonic()
    while time.monotonic() < away_since + 20:
        assert flow.up.alive, flow.up.err
        assert flow.feeder.program.alive, flow.feeder.program.err
        time.sleep(0.5)
    assert flow.watcher.newest == seen, "something was committed by one broker of three"
    for node in cluster.nodes[:2]:
        node.launch()
    for node in cluster.nodes[:2]:
        node.await_ready()
    flow.moves(ROWS_OF_A_BOUNCE)
    flow.finish()
