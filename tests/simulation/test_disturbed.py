"""Junk and old snapshots on the posterior topic change nothing: every schedule ends with the exact posterior."""

from __future__ import annotations

import pytest

from streaminfer.runtime.service import Fatal
from tests.simulation.disturbed import FromThePrior, LockedOut, Trusting, play
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.world import EVENTS, Services

SCHEDULES = 125
LONG_SCHEDULES = 1000
WINDOWS, LONG_WINDOWS = 40, 500


@schedules(SCHEDULES, LONG_SCHEDULES)
def test_schedules(seeds: range) -> None:
    for seed in seeds:
        play(seed)


@schedules(WINDOWS, LONG_WINDOWS)
@pytest.mark.parametrize("forget", [{"window_events": 9}, {"window_seconds": 9.0}], ids=str)
def test_schedules_of_windows(forget: dict[str, float], seeds: range) -> None:
    """Junk among their panes, too."""
    for seed in seeds:
        assert play(seed, forget=forget).n_events == EVENTS


def test_a_master_that_junk_locks_out_is_found() -> None:
    shows_a_bug(lambda seed: play(seed, services=Services(master=LockedOut)), 200, r"simulated\.posterior-0", Fatal)


def test_a_master_that_takes_junk_for_the_end_is_found() -> None:
    shows_a_bug(
        lambda seed: play(seed, services=Services(master=FromThePrior)),
        200,
        "frontier shrank|below the frontier and not in the posterior",
    )


def test_a_reader_of_falling_versions_is_found() -> None:
    shows_a_bug(lambda seed: play(seed, Trusting), 200, match="version went from")
