"""Records of next month among the others: every snapshot has the weights that the log decides, whatever is killed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime.learning.worker import Worker
from tests.simulation.schedules import shows_a_bug
from tests.simulation.world import EVENTS, Services, World

KINDS = [{"half_life_seconds": 9.0}, {"window_seconds": 9.0}]
SCHEDULES = 60
FOUND_WITHIN = 60
MONTH = 30 * 86_400


class WrongWorld(World):
    """One record of ten is of next month, by its timestamp."""

    def _output(self, value: bytes) -> Output:
        made = super()._output(value)
        ahead = MONTH if self.rng.random() < 0.1 else 0
        return replace(made, timestamp=int(1000 * (self.clock() + ahead)))


@pytest.mark.parametrize("forget", KINDS, ids=str)
def test_schedules(forget: dict[str, float]) -> None:
    for seed in range(SCHEDULES):
        assert WrongWorld(seed, forget=forget).run().n_events == EVENTS


class Forgetful(Worker):
    """Starts a partition without what it has reached."""

    def _start(self, partition: Partition, position: int) -> None:
        super()._start(partition, position)
        self._tapes[partition].time_reached = ()


@pytest.mark.parametrize("forget", KINDS, ids=str)
def test_a_worker_that_starts_without_what_was_reached_is_found(forget: dict[str, float]) -> None:
    shows_a_bug(
        lambda seed: WrongWorld(seed, Services(worker=Forgetful), forget).run(),
        FOUND_WITHIN,
        "weighted otherwise|another window",
    )
