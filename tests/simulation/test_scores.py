"""Workers whose scores are sometimes beyond all numbers: what a master commits it can restore all the same."""

from __future__ import annotations

import random

import pytest

from streaminfer.runtime.following import manifests
from streaminfer.runtime.learning.learner import Learned
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.reading.tape import Minibatch
from streaminfer.variational import fold
from streaminfer.wire import increments
from tests.made import changed
from tests.simulation.schedules import shows_a_bug
from tests.simulation.world import Services, play

SCHEDULES = 60
FOUND_WITHIN = 200
SCORE = -1.7e308
"""Two of them leave float64."""


class Overflowing(Worker):
    """One increment of three has such a score; made again it may have another."""

    dice = random.Random(0)

    def _learn(self, batch: Minibatch) -> list[Learned]:
        return [
            each._replace(increment=changed(each.increment, score=SCORE)) if self.dice.random() < 0.3 else each
            for each in super()._learn(batch)
        ]


def _play(seed: int) -> None:
    Overflowing.dice = random.Random(seed)
    play(seed, lambda: Services(worker=Overflowing))


def test_schedules() -> None:
    for seed in range(SCHEDULES):
        _play(seed)


def test_a_master_that_commits_what_nobody_can_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(increments, "LOWEST", float("-inf"))
    monkeypatch.setattr(fold, "LARGEST_SCORE", float("inf"))
    monkeypatch.setattr(manifests, "check_readable", lambda *_: None)
    shows_a_bug(_play, FOUND_WITHIN, "stuck")
