"""Memoized inference of filters: a later visit learns on the posterior less what it has of the batch."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime.learning.visited_batches import VisitedBatches
from streaminfer.runtime.reading.tape import Minibatch
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.increment import Pane
from streaminfer.wire import panes
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.panes import PanePlace
from tests.runtime.rig import Rig
from tests.simulation.bus import SimulatedBus

N = 21
VALUES = np.random.default_rng(1).normal(size=N).round(2).tolist()
ROWS = [{"x": x, "y": int(x > 0) if i % 4 else i % 3 % 2} for i, x in enumerate(VALUES)]


def regression(kind: str = "logistic_regression", epochs: int = 3, partitions: int = 1, **options: Any) -> Spec:
    settings = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, "max_staleness": 0}
    settings |= {name: options.pop(name) for name in settings if name in options}
    return parse_spec(
        {
            "name": "demo",
            "data": {"partitions": partitions},
            "model": {"kind": kind, "features": ["x"], "target": "y", **options},
            "inference": {"method": "memoized", "epochs": epochs, **settings},
        }
    )


def lines(rows: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def played(rig: Rig, period: int | None = None) -> set[int]:
    """Runs all passes; after every `period` turns a service is replaced without a word. In which passes it was."""
    mark, killed = IdleMark(rig.spec, rig.bus), set()
    worker, master = rig.worker("w"), rig.master()
    rig.run(worker, master, rounds=2)
    for turn in range(3000):
        if period is not None and turn % period == 0:
            killed.add(rig.snapshot().frontier.epoch)
            rig.clock.advance(11.0)  # until the lease of the killed service has ended
            worker, master = (rig.worker(f"w{turn}"), master) if turn // period % 2 else (worker, rig.master())
        rig.run(worker, master, rounds=1, seconds=0.25)
        if mark.reached(rig.snapshot()):
            return killed
    raise AssertionError("it never ended")


@pytest.mark.parametrize("kind", ["logistic_regression", "probit_regression"])
@pytest.mark.parametrize("period", [None, 4, 5])
def test_passes_end_where_fit_does_to_the_last_digit_whoever_is_killed(kind: str, period: int | None) -> None:
    rig = Rig(regression(kind))
    rig.send(*lines(ROWS))
    killed = played(rig, period)
    assert killed == (set() if period is None else {0, 1, 2})
    found, wanted = rig.snapshot(), fit(rig.spec, ROWS).snapshot
    assert (found.frontier.epoch, found.n_events, found.counts.n_rejected, found.payload.n_batches) == (2, N, 0, 6)
    np.testing.assert_array_equal(found.payload.statistics, wanted.payload.statistics)
    assert (found.counts.score, found.counts.n_unconverged) == (wanted.counts.score, wanted.counts.n_unconverged)


def test_kills_leave_no_trace_among_markers_and_bad_events() -> None:
    """Positions that are not events, and a batch that has none at all."""
    found = []
    for period in (None, 3, 7):
        rig = Rig(regression(), markers=True)
        rig.send(*lines(ROWS[:8]), *[b"no event"] * 4, *lines(ROWS[8:]))
        played(rig, period)
        found.append(rig.snapshot())
        assert (found[-1].frontier.epoch, found[-1].n_events, found[-1].counts.n_dead_lettered) == (2, N, 4)
    for each in found[1:]:
        np.testing.assert_array_equal(each.payload.statistics, found[0].payload.statistics)


def test_passes_lead_to_what_one_batch_of_all_events_gives() -> None:
    """By Laplace's approximation the mode of all is a fixed point, however events are cut into batches."""
    whole = fit(regression(local="laplace", minibatch=N), ROWS).snapshot.payload.statistics
    first, last = (
        fit(regression(local="laplace", epochs=epochs), ROWS).snapshot.payload.statistics for epochs in (1, 60)
    )
    assert np.abs(first - whole).max() > 0.01
    np.testing.assert_allclose(last, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("staleness", [0, 8])
def test_workers_of_two_partitions_come_to_the_same(staleness: int) -> None:
    """Each takes what the posterior has of its own batches away, whatever others visit meanwhile."""
    spec = regression(local="laplace", epochs=40, partitions=2, max_staleness=staleness)
    rig = Rig(spec)
    rig.send(*lines(ROWS[:13]))
    rig.send(*lines(ROWS[13:]), partition=1)
    mark, services = IdleMark(spec, rig.bus), (rig.worker("a"), rig.worker("b"), rig.master())
    rig.run(*services, rounds=5, seconds=0.25)
    while not mark.reached(rig.snapshot()):
        rig.run(*services, rounds=1, seconds=0.25)
    found, whole = rig.snapshot(), fit(regression(local="laplace", minibatch=N), ROWS).snapshot
    assert {each["writer"] for each in rig.increments() if each["epoch"] == 39} == {"a", "b"}
    assert (found.frontier.epoch, found.n_events, found.payload.n_batches, found.counts.n_rejected) == (39, N, 6, 0)
    np.testing.assert_allclose(found.payload.statistics, whole.payload.statistics, rtol=1e-4, atol=1e-4)


class Hiding(SimulatedBus):
    """A bus on which a transaction has not ended on every partition."""

    n_hidden = 0

    def hidden(self, topic: str) -> dict[int, int]:
        return dict.fromkeys(self.ends(topic), self.n_hidden)


class Kept:
    """Batches on a bus, and a follower of them."""

    def __init__(self) -> None:
        self.rig = Rig(regression())
        self.bus = Hiding(self.rig.broker)
        self.batches = VisitedBatches(self.rig.spec, self.bus, DECLARED)

    def put(self, begin: int, n_events: int, value: float, version: int = 1) -> None:
        spec = self.rig.spec
        pane = Pane(n_events, np.full(spec.model.size, value))
        records = panes.encode(PanePlace(0, begin), pane, spec.fingerprint, version, 1 << 20)
        self.publish(*records)

    def publish(self, *records: tuple[bytes, bytes]) -> None:
        self.bus.publish([Output(self.rig.topic("statistics"), data, key, 0) for key, data in records])

    def ready(self, epoch: int) -> None:
        for _ in range(100):
            if self.batches.ready(epoch):
                return
        raise AssertionError("it never was")

    def found(self, begin: int, epoch: int) -> float | None:
        batch = Minibatch(Partition(self.rig.topic("events"), 0), begin, begin + 4, [], epoch)
        statistics = self.batches.statistics(batch)
        return None if statistics is None else float(statistics[0])


def test_a_pass_sees_what_the_one_before_has_left() -> None:
    kept = Kept()
    kept.put(0, 4, 1.0)
    kept.ready(1)
    kept.put(0, 4, 2.0, version=2)
    assert kept.batches.ready(1)
    assert (kept.found(0, 1), kept.found(4, 1)) == (1.0, None)
    kept.ready(2)
    assert kept.found(0, 2) == 2.0
    with pytest.raises(ValueError, match="pass 1 is asked for, and 2 is ready"):
        kept.found(0, 1)


def test_the_topic_is_read_once_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, looks = Kept(), []
    real = kept.bus.ends
    monkeypatch.setattr(kept.bus, "ends", lambda topic: looks.append(topic) or real(topic))
    kept.put(0, 4, 1.0)
    assert kept.batches.ready(0), "nothing was before the first pass"
    assert looks == []
    kept.ready(1)
    first = len(looks)
    assert first > 0
    for _ in range(5):
        assert kept.batches.ready(1)
        kept.found(0, 1)
    assert len(looks) == first


def test_a_batch_of_no_events_has_nothing() -> None:
    kept = Kept()
    kept.put(0, 0, 0.0)
    kept.ready(1)
    assert kept.found(0, 1) is None


def test_a_transaction_that_has_not_ended_here_is_waited_for() -> None:
    """The snapshot that begins a pass may be seen before the last batches of the pass before are."""
    kept = Kept()
    kept.put(0, 4, 1.0)
    kept.bus.n_hidden = 1
    assert not any(kept.batches.ready(1) for _ in range(5))
    kept.put(4, 4, 3.0)
    kept.bus.n_hidden = 0
    kept.ready(1)
    assert (kept.found(0, 1), kept.found(4, 1)) == (1.0, 3.0)


def test_a_worker_learns_nothing_of_a_pass_before_it_knows_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(regression())
    rig.send(*lines(ROWS))
    worker, master = rig.worker(), rig.master()
    while not (master.ready and rig.snapshot().frontier.epoch == 1):
        rig.run(worker, master, rounds=1, seconds=0.25)
    monkeypatch.setattr(SimulatedBus, "hidden", lambda bus, topic: dict.fromkeys(bus.ends(topic), 1))
    fresh = rig.worker("fresh")
    worker.close()
    rig.run(fresh, rounds=20, seconds=0.25)
    before = len(rig.increments())
    rig.run(fresh, rounds=20, seconds=0.25)
    assert len(rig.increments()) == before
    monkeypatch.undo()
    rig.run(fresh, rounds=20, seconds=0.25)
    assert len(rig.increments()) == before + 1


def test_junk_is_logged_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    kept.publish((b"0/0/0", b"junk"), (b"x", b""))
    kept.put(0, 4, 1.0)
    with caplog.at_level(logging.WARNING):
        kept.ready(1)
    assert kept.found(0, 1) == 1.0
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(": ")[0] for text in told] == ["demo.statistics-0 offset 0 is not a batch"]  # once for a cause


def test_a_batch_that_is_not_whole_stops_the_worker() -> None:
    kept = Kept()
    spec = kept.rig.spec
    pane = Pane(4, np.ones(spec.model.size))
    kept.publish(panes.encode(PanePlace(0, 0), pane, spec.fingerprint, 1, panes.ENVELOPE + 16)[0])
    kept.ready(1)
    with pytest.raises(Fatal, match=r"demo.statistics-0: what the posterior has of a batch cannot be read: pane 0"):
        kept.found(0, 1)
