"""A frontier belongs to one incarnation of the data topic: in another one of the same name it means nothing."""

from __future__ import annotations

import pytest

from streaminfer.runtime.service import Fatal
from streaminfer.runtime.supervising.idle import IdleMark
from tests.made import changed
from tests.runtime.rig import Rig, poisson

REMEDY = "give the spec a new name"


def remake(rig: Rig, *values: int) -> None:
    rig.broker.remake(rig.topic("events"))
    rig.send(*values)


@pytest.fixture
def rig() -> Rig:
    """Four events in the posterior, by services that are gone."""
    made = Rig(poisson())
    made.send(1, 2, 3, 4)
    worker, master = made.worker(), made.master()
    made.run(worker, master)
    worker.close()
    master.close()
    assert made.snapshot().frontier.topic_id == made.bus.topic_id(made.topic("events"))
    return made


@pytest.mark.parametrize("n", [2, 4, 9])
def test_a_master_that_starts_says_so(rig: Rig, n: int) -> None:
    """Whether the new topic has fewer records than the frontier, as many, or more."""
    remake(rig, *[100] * n)
    with pytest.raises(Fatal, match="deleted and created again") as caught:
        rig.run(rig.master())
    assert REMEDY in str(caught.value)
    assert "\n" not in str(caught.value)
    assert rig.total() == 10


def test_a_master_at_work_notices_within_seconds(rig: Rig) -> None:
    master = rig.master()
    rig.run(master)
    remake(rig, *[100] * 9)
    rig.clock.advance(3.0)
    with pytest.raises(Fatal, match="created again"):
        rig.run(master, rounds=1)


def test_a_worker_publishes_nothing_of_the_new_topic(rig: Rig) -> None:
    worker, before = rig.worker(), len(rig.records("increments"))
    rig.run(worker)
    remake(rig, *[100] * 9)
    with pytest.raises(Fatal, match="created again"):
        rig.run(worker, rounds=30)
    assert len(rig.records("increments")) == before


def test_a_topic_made_anew_between_reading_and_publishing_is_noticed(rig: Rig) -> None:
    """Looked at before the reading only, the records of the new topic would be taken for the old one's."""
    worker, before = rig.worker(), len(rig.records("increments"))
    rig.run(worker)
    learn = worker._learner.learn

    def meanwhile(*given: object) -> object:
        remake(rig, *[100] * 9)
        return learn(*given)  # type: ignore[arg-type]

    worker._learner.learn = meanwhile  # type: ignore[method-assign, assignment]
    rig.send(5, 6, 7, 8)
    with pytest.raises(Fatal, match="created again"):
        rig.run(worker, rounds=30)
    assert len(rig.records("increments")) == before


def test_a_snapshot_from_before_gets_the_id_of_its_topic(rig: Rig) -> None:
    """From then on it is checked."""
    found = rig.snapshot()
    rig.publish_snapshot(changed(found, version=found.version + 1, topic_id=""))
    assert rig.snapshot().frontier.topic_id == ""
    worker, master = rig.worker(), rig.master()
    rig.send(5, 0, 0, 0)
    rig.run(worker, master)
    assert (rig.snapshot().frontier.topic_id, rig.total()) == (rig.bus.topic_id(rig.topic("events")), 15)
    worker.close()
    master.close()
    remake(rig, *[100] * 9)
    with pytest.raises(Fatal, match="created again"):
        rig.run(rig.master())


def test_a_frontier_of_the_old_topic_is_not_idle(rig: Rig) -> None:
    remake(rig, *[100] * 4)
    mark = IdleMark(rig.spec, rig.bus)
    assert dict(rig.snapshot().frontier.positions) == mark.ends
    assert not mark.reached(rig.snapshot())
    assert mark.reached(changed(rig.snapshot(), topic_id=rig.bus.topic_id(rig.topic("events"))))


def test_the_id_is_read_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew in between, the topic is another than the snapshot says: an error, and nothing is skipped."""
    rig = Rig(poisson())
    rig.send(1, 2, 3)
    master = rig.master()
    starts = master._bus.starts

    def later(topic: str) -> dict[int, int]:
        if topic == rig.topic("events"):
            remake(rig, 7, 7, 7)
        return starts(topic)

    monkeypatch.setattr(master._bus, "starts", later)
    master.step(0.0)
    master.step(0.0)
    assert rig.snapshot().frontier.topic_id != rig.bus.topic_id(rig.topic("events"))
