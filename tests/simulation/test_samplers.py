"""Seeded schedules of crashes, zombies and lies change no digit of any draw; planted bugs are each found.

To see one schedule again: `from tests.simulation.sampler_world import play; play(SEED)`.
"""

from __future__ import annotations

import pytest

from streaminfer.sampling.pooled.shown import Shown
from streaminfer.tables.draws import sampled
from tests.simulation.planted_samplers import PLANTED
from tests.simulation.sampler_world import play
from tests.simulation.schedules import schedules, shows_a_bug

SCHEDULES, PART = 50, 25
LONG_SCHEDULES = 5_000
FOUND_WITHIN = 400
"""The rarest planted bug shows in more than 1 of 40 schedules: missing it by chance in so many has P < 1e-4."""


def _shown(seed: int) -> Shown:
    return sampled(play(seed)).shown


@schedules(SCHEDULES, LONG_SCHEDULES, PART)
def test_schedules(seeds: range) -> None:
    assert max(_shown(seed).segment for seed in seeds) > 0, "segments never grew: the schedules are too tame"


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    shows_a_bug(lambda seed: play(seed, PLANTED[name]), FOUND_WITHIN)


def test_a_schedule_repeats_itself() -> None:
    for seed in range(5):
        first, second = play(seed), play(seed)
        assert (first.version, first.created_at) == (second.version, second.created_at)
