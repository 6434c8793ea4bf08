"""A bad network between clients and broker: delays, stalls, lost connections, and a time in which nothing passes."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator

import pytest

from tests.faults.answers import linear_regression
from tests.faults.dropping import DroppingProxy, Weather, broker_behind_proxy, calm
from tests.faults.flowing import Flow
from tests.faults.programs import Programs
from tests.kafka_broker import LocalBroker

ROWS = 6000
OUTAGE_S = 45.0
"""Longer than sessions, transactions and requests last."""

Behind = tuple[LocalBroker, DroppingProxy]


def far_away(drawn: random.Random) -> float | None:
    """A round trip of 100 to 300 ms."""
    return drawn.uniform(0.05, 0.15)


def lossy(drawn: random.Random) -> float | None:
    """As lost packets do: most messages are quick, one of 50 stalls until it is sent again, one of 500 never comes."""
    chance = drawn.random()
    return None if chance < 0.002 else drawn.uniform(0.5, 3.0) if chance < 0.02 else drawn.uniform(0.0, 0.02)


WEATHERS = {"far away": far_away, "lossy": lossy}


@pytest.fixture(scope="module")
def behind() -> Iterator[Behind]:
    with broker_behind_proxy() as both:
        yield both


def flow_behind(programs: Programs, behind: Behind, weather: Weather) -> Flow:
    """All processes work through the proxy; only the test's own looks do not."""
    broker, proxy = behind
    proxy.weather = weather
    name = f"weather-{uuid.uuid4().hex[:8]}"
    flow = Flow(programs, f"kafka://127.0.0.1:{proxy.port}", linear_regression(ROWS), name)
    flow.url = f"kafka://{broker.address}"
    return flow


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("weather", WEATHERS)
def test_services_behind_a_bad_network_stay_exact(programs: Programs, behind: Behind, weather: str) -> None:
    drawn, began = random.Random(5), time.monotonic()
    flow = flow_behind(programs, behind, lambda: WEATHERS[weather](drawn))
    for _ in range(4):
        flow.moves(ROWS // 5)
    flow.finish()
    print(f"{weather}: {ROWS:,} events in {time.monotonic() - began:.0f} s")
    behind[1].weather = calm


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_network_on_which_nothing_passes_for_a_while(programs: Programs, behind: Behind) -> None:
    """Connections stay open, and what was sent arrives in the end: long after it was given up."""
    proxy = behind[1]
    flow = flow_behind(programs, behind, calm)
    flow.moves(ROWS // 4)
    flow.let(ROWS // 4)
    until = time.monotonic() + OUTAGE_S
    proxy.weather = lambda: max(0.0, until - time.monotonic())
    time.sleep(OUTAGE_S)
    flow.moves(ROWS // 4)
    flow.finish()
