"""A master of a newer version takes over in the middle of a schedule and writes what this one cannot read.

A service of this version then stops with an error, and nothing is published below what the newer one wrote.
"""

from __future__ import annotations

import pytest

from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.runtime.folding import restoring
from streaminfer.runtime.service import Fatal
from streaminfer.wire.snapshots import MANIFEST
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.subscribers import Wrong
from tests.simulation.world import EVENTS, Process, World

SCHEDULES, LONG_SCHEDULES = 50, 500
FOUND_WITHIN = 200
OF_TOMORROW = b"\0\0\0\0\x63of tomorrow"


class UpgradedWorld(World):
    """The world of a posterior without forgetting."""

    upgraded = False
    n_refused = 0

    def _step(self, process: Process) -> None:
        try:
            super()._step(process)
        except Fatal as error:
            if not self.upgraded or "written by a newer version of streaminfer" not in str(error):
                raise
            self.n_refused += 1
            self.kill(process)

    def upgrade(self) -> None:
        with self.bus.writer(names.master_writer(self.spec, 0)) as writer:
            writer.commit([Output(names.topic(self.spec, "posterior"), OF_TOMORROW, MANIFEST, 0)])
        self.upgraded = True

    def compact(self) -> None:
        """Left out, so that there is something that could be gone back to."""

    def play(self) -> None:
        for _ in range(self.rng.randint(*self.turns)):
            self.turn()
        before, unsent = self.subscriber.newest, EVENTS - self.sent
        self.upgrade()
        self.produce_rest()
        self.chaotic = False
        for _ in range(40):
            for process in self.processes:
                process.wake = min(process.wake, self.clock())
                self.step(process)
            self.clock.advance(1.0)
        if self.subscriber.newest is not before:
            raise Wrong("somebody went on below a newer version")
        # Without new events, or a snapshot that workers start from, a running master has nothing to commit.
        if unsent and before is not None and not self.n_refused:
            raise Wrong("nobody noticed the newer version")


@schedules(SCHEDULES, LONG_SCHEDULES)
def test_nobody_goes_on_below_a_newer_version(seeds: range) -> None:
    for seed in seeds:
        UpgradedWorld(seed).play()


def test_a_master_that_takes_a_newer_version_for_junk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Never(Exception):
        """Nothing is of an unknown schema."""

    monkeypatch.setattr(restoring, "UnknownSchema", Never)
    shows_a_bug(lambda seed: UpgradedWorld(seed).play(), FOUND_WITHIN, "went on below a newer version")
