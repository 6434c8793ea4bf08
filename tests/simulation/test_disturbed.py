"""Junk and old snapshots on the posterior topic change nothing: every schedule ends with the exact posterior."""

from __future__ import annotations

from tests.simulation.disturbed import Trusting, play
from tests.simulation.schedules import in_parts, shows_a_bug

SCHEDULES = 1000


@in_parts(0, SCHEDULES)
def test_schedules(seeds: range) -> None:
    for seed in seeds:
        play(seed)


def test_a_reader_of_falling_versions_is_found() -> None:
    shows_a_bug(lambda seed: play(seed, Trusting), 200, match="version went from")
