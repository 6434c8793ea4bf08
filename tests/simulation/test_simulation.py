"""Thousands of seeded schedules of crashes, zombies and lies end with the exact posterior; planted bugs are each found.

To see one schedule again: `from tests.simulation.world import play; play(SEED)`.
"""

from __future__ import annotations

import pytest

from tests.simulation.planted import PLANTED
from tests.simulation.schedules import schedules
from tests.simulation.subscribers import Wrong
from tests.simulation.world import EVENTS, play

SCHEDULES = 1000
"""Enough in every run: a bug like the rarest planted one escapes with P < 1e-4."""
LONG_SCHEDULES = 50_000
FOUND_WITHIN = 2000
"""The rarest planted bug shows in more than 1 of 100 schedules: missing it by chance in this many has P < 1e-8."""


@schedules(SCHEDULES, LONG_SCHEDULES)
def test_schedules(seeds: range) -> None:
    counted = [play(seed).n_events for seed in seeds]
    assert max(counted) == EVENTS
    assert min(counted) < EVENTS, "retention never overtook a reader: the schedules are too tame"


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    seed = next((seed for seed in range(FOUND_WITHIN) if not _survives(seed, name)), None)
    assert seed is not None, f"{name}: not found in {FOUND_WITHIN} schedules"
    with pytest.raises(Wrong, match=f"^seed {seed}: "):
        play(seed, PLANTED[name])


def _survives(seed: int, name: str) -> bool:
    try:
        play(seed, PLANTED[name])
    except Wrong:
        return False
    return True


def test_a_schedule_repeats_itself() -> None:
    for seed in range(20):
        first, second = play(seed), play(seed)
        told = (first.version, first.read_to, first.counts.n_dropped, dict(first.frontier.positions))
        assert told == (second.version, second.read_to, second.counts.n_dropped, dict(second.frontier.positions))
