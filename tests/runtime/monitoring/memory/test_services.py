"""Who lives, by beats: silent processes, restarts, and those that ended on purpose."""

from __future__ import annotations

from dataclasses import replace

from streaminfer.runtime.monitoring.memory.services import GONE_MS, MOST, Services
from streaminfer.wire import beats
from streaminfer.wire.beats import Beat

BEAT = Beat("svb-worker", "worker-0", 1000, "here", True, {"events": 5.0}, 1000)


def states(held: Services, now: int) -> list[str]:
    return list(held.states(now).values())


def test_a_process_is_healthy_until_it_is_silent_and_then_forgotten() -> None:
    held = Services()
    assert held.add(BEAT, 1000)
    assert states(held, 1000 + 15_000) == ["healthy"]
    assert states(held, 1000 + 15_001) == ["silent"], "within 20 seconds of its end"
    assert states(held, 1000 + GONE_MS) == []
    assert held.documents(1000 + GONE_MS) == []


def test_one_that_is_not_ready_is_starting() -> None:
    held = Services()
    held.add(replace(BEAT, ready=False), 1000)
    assert states(held, 1000) == ["starting"]


def test_a_new_start_is_a_restart_and_a_late_beat_is_not() -> None:
    held = Services()
    held.add(BEAT, 1000)
    assert not held.add(replace(BEAT, at=2000), 2000), "nothing new"
    assert held.add(replace(BEAT, start=3000), 3000)
    assert not held.add(replace(BEAT, at=3500), 3500)
    (found,) = held.documents(4000)
    assert (found["restarts"], found["seconds_since"], found["counters"]) == (1, 1.0, {"events": 5.0})


def test_who_ends_on_purpose_is_gone() -> None:
    held = Services()
    held.add(BEAT, 1000)
    assert not held.end(beats.key_of("svb-worker", "worker-1"))
    assert held.end(beats.key_of("svb-worker", "worker-0"))
    assert not held.end(None)
    assert states(held, 1000) == []


def test_there_are_never_more_processes_than_the_most() -> None:
    held = Services()
    for i in range(MOST + 5):
        held.add(replace(BEAT, instance=f"worker-{i}"), 1000 + i)
    assert len(held.shown) == MOST
    assert ("svb-worker", "worker-0") not in held.shown
    newest = held.newest("svb-worker")
    assert newest is not None
    assert newest.beat.instance == f"worker-{MOST + 4}"
    assert held.newest("up") is None
