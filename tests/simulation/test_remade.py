"""The data topic is deleted and made anew in the middle of a schedule: nothing of the new one gets into the posterior.

What readers had of the old one may still come; a service that looks afterwards ends with an error.
"""

from __future__ import annotations

import pytest

from streaminfer.runtime import topic_identity
from streaminfer.runtime.learning import worker
from streaminfer.runtime.service import Fatal
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.subscribers import Subscriber, Wrong
from tests.simulation.world import Process, World

SCHEDULES, LONG_SCHEDULES = 50, 500
FOUND_WITHIN = 100
OLD = 28
"""The values of events of the old topic have fewer bits than this, those of the new one more."""


class RemadeSubscriber(Subscriber):
    """Every snapshot has events of the topic alone that its id says."""

    def _check_events(self, snapshot: Snapshot) -> None:
        topic_id, held = snapshot.frontier.topic_id, int(snapshot.payload.statistics[0])
        new = topic_id == self._world.new_id  # type: ignore[attr-defined]
        if held >> OLD if not new else held % (1 << OLD):
            raise Wrong(f"events of another topic than {topic_id}: {held:b}")


class RemadeWorld(World):
    """The world of a posterior without forgetting."""

    remade = False
    n_fatal = 0
    new_id = "none yet"

    def make_subscriber(self) -> Subscriber:
        return RemadeSubscriber(self)

    def produce(self) -> None:
        if self.sent < OLD - 8 or self.remade:
            super().produce()

    def retention(self) -> None:
        """Nothing is removed but the topic."""

    def _step(self, process: Process) -> None:
        try:
            super()._step(process)
        except Fatal:
            if not self.remade:
                raise
            self.n_fatal += 1
            self.kill(process)

    def remake(self) -> None:
        """So many records that every frontier is inside the new log."""
        self.broker.remake(self.data)
        self.remade, self.sent, self.new_id = True, OLD, self.broker.topic_id(self.data)
        for _ in range(20):
            self.produce()
            self.sent = OLD + self.rng.randrange(20)

    def play(self) -> None:
        for _ in range(self.rng.randint(*self.turns)):
            self.turn()
        known = self.subscriber.newest is not None
        self.remake()
        for _ in range(60):
            self.turn()
        self.chaotic = False
        for _ in range(20):
            for process in self.processes:
                process.wake = min(process.wake, self.clock())
                self.step(process)
            self.clock.advance(1.0)
        if known and not self.n_fatal:
            raise Wrong("nobody noticed that the topic was made anew")


@schedules(SCHEDULES, LONG_SCHEDULES)
def test_nothing_of_a_new_topic_is_learned(seeds: range) -> None:
    for seed in seeds:
        RemadeWorld(seed).play()


def test_services_that_never_look_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_identity, "check", lambda *_: "the same")
    shows_a_bug(lambda seed: RemadeWorld(seed).play(), FOUND_WITHIN, "events of another topic|nobody noticed")


def test_a_worker_that_leaves_it_to_the_master_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master looks every two seconds: what comes in between is of the new topic."""

    class Blind:
        check = staticmethod(lambda *_: "")

    monkeypatch.setattr(worker, "topic_identity", Blind)
    shows_a_bug(lambda seed: RemadeWorld(seed).play(), FOUND_WITHIN, "events of another topic")
