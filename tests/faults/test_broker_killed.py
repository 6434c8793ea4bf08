"""The only broker is killed -9 in the middle of commits and comes back; the posterior stays exact."""

from __future__ import annotations

import random
import time

import pytest

from tests.faults.answers import linear_regression
from tests.faults.flowing import Flow
from tests.faults.programs import Programs
from tests.kafka_broker import local_broker

ROWS_OF_A_KILL = 1000


def play(programs: Programs, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    with local_broker() as broker:
        case = linear_regression((kills + 1) * ROWS_OF_A_KILL)
        flow = Flow(programs, f"kafka://{broker.address}", case, "killed")
        for _ in range(kills):
            flow.moves(ROWS_OF_A_KILL)
            time.sleep(rng.uniform(0.0, 0.5))
            broker.kill()
            time.sleep(rng.uniform(0.0, 2.0))
            broker.start()
        flow.finish()


def test_a_broker_killed_twice_loses_nothing_and_repeats_nothing(programs: Programs) -> None:
    play(programs, kills=2, seed=1)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_broker_killed_ten_times_loses_nothing_and_repeats_nothing(programs: Programs) -> None:
    play(programs, kills=10, seed=2)
