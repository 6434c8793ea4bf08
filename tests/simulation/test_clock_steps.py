"""The clocks of all machines are set forward and back by up to a month: within 30 seconds everything goes on."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from streaminfer.bus.sqlite import groups
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.subscribers import Wrong
from tests.simulation.world import Services, World

SCHEDULES, LONG_SCHEDULES = 100, 1000
FOUND_WITHIN = 300
WITHIN = 30.0
MONTH = 30 * 86_400.0
STEPS = [-MONTH, -3600.0, -60.0, -15.0, 15.0, 60.0, 3600.0, MONTH]


@dataclass
class SteppedWorld(World):
    """What measures intervals is not set; leases and timestamps are of the time of day."""

    skew = 0.0
    stepped_at = 0.0

    def wall(self) -> float:
        return self.clock() + self.skew

    def turn(self) -> None:
        if self.rng.random() < 0.05:
            self.set_clock()
        super().turn()

    def set_clock(self) -> None:
        self.skew += self.rng.choice(STEPS)

    def produce_rest(self) -> None:
        """The last step comes when the chaos is over, and nothing else helps a process that waits."""
        super().produce_rest()
        self.set_clock()
        self.stepped_at = self.clock()

    def run(self) -> Snapshot:
        found = super().run()
        waited = self.clock() - self.stepped_at
        if waited > WITHIN:
            raise Wrong(f"slow: all was there {waited:.0f} s after the clock was set")
        return found


def _play(seed: int) -> None:
    SteppedWorld(seed, Services()).run()


@schedules(SCHEDULES, LONG_SCHEDULES)
def test_schedules(seeds: range) -> None:
    for seed in seeds:
        _play(seed)


def test_a_bus_that_waits_for_a_lease_of_next_month_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "LONGEST_LEASE", float("inf"))
    shows_a_bug(_play, FOUND_WITHIN, "stuck|slow")
