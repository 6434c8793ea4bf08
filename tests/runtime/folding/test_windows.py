"""The services keep windows as defined, across restarts, losses and compaction, and only with panes that fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from streaminfer import fit, parse_spec
from streaminfer.bus.protocol import Output, Partition, Unavailable
from streaminfer.cli.snapshot import print_summary
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.service import Fatal
from streaminfer.variational.increment import Pane
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import panes, snapshots
from streaminfer.wire.events.rows import Table, pack
from streaminfer.wire.panes import PanePlace
from tests.models.examples import EXAMPLES, Example
from tests.runtime.api.test_fit import _rows
from tests.runtime.folding.test_forgetting import NOW, counts, reasons, send
from tests.runtime.rig import Rig
from tests.simulation.bus import Faults, SimulatedBus

KINDS = [{"window_events": 6}, {"window_seconds": 64.0}]
EACH = pytest.mark.parametrize("forget", KINDS, ids=str)


def panes_of(rig: Rig) -> dict[bytes, bytes | None]:
    """What compaction would leave of the statistics topic, tombstones included."""
    return {record.key or b"": record.value for record in rig.records("statistics")}


def live(rig: Rig) -> list[str]:
    return sorted(key.decode() for key, value in panes_of(rig).items() if value is not None)


def test_each_partition_has_the_last_positions_before_its_frontier() -> None:
    """Bad events and the markers of transactions take positions, too."""
    rig = Rig(counts({"window_events": 6}, partitions=2))
    for k in (1, 10, 100, 1000, 10_000, 100_000):
        send(rig, {"k": k}, b"no event")
    send(rig, {"k": 7}, {"k": 70}, partition=1)
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master, rounds=30)
    found = rig.snapshot()
    assert found.frontier.positions == {0: 12, 1: 2}
    assert (found.payload.statistics[0], found.n_effective) == (111_077.0, 5.0)
    assert (found.n_events, found.counts.n_dead_lettered) == (8, 6)
    assert live(rig) == ["0/10/0", "0/6/0", "0/8/0", "1/0/0", "1/1/0"]
    send(rig, b"none", b"none", b"none")
    rig.run(worker, master, rounds=30)
    assert (rig.total(), rig.snapshot().n_effective) == (100_077.0, 3.0)


@pytest.mark.parametrize("timestamp", [None, "at"])
def test_late_events_count_while_their_time_is_in_the_window_whoever_brings_them(timestamp: str | None) -> None:
    rig = Rig(counts({"window_seconds": 64}, partitions=2, timestamp=timestamp))
    ages = {0: (64, 0, 20), 1: (65.1, 63.9, 1e9)}
    for partition, each in ages.items():
        for i, age in enumerate(each):
            at = NOW if timestamp else NOW - age
            send(rig, {"k": 10 ** (3 * partition + i), "at": NOW - age}, at=at, partition=partition)
    services = rig.worker("a"), rig.worker("b"), rig.master()
    rig.run(*services, rounds=30)
    found = rig.snapshot()
    assert (found.payload.statistics[0], found.n_effective, found.n_events) == (10_111.0, 4.0, 6)
    assert found.payload.clocks[0].newest == NOW
    send(rig, {"k": 5, "at": NOW + 60}, at=NOW + 60)
    rig.run(*services, rounds=30)
    assert (rig.total(), rig.snapshot().n_effective, rig.snapshot().n_events) == (15.0, 2.0, 7)


def test_an_event_of_the_far_future_empties_no_window() -> None:
    rig = Rig(counts({"window_seconds": 60}, timestamp="at"))
    send(rig, {"k": 1, "at": NOW}, {"k": 5, "at": NOW + 3601}, {"k": 5, "at": "9999-12-31T23:59:59Z"})
    rig.run(rig.worker(), rig.master(), rounds=30)
    assert (rig.total(), rig.snapshot().n_effective, rig.snapshot().counts.n_dead_lettered) == (1.0, 1.0, 2)
    assert len(reasons(rig)) == 2


def test_a_record_of_many_rows_is_one_position() -> None:
    document = {
        "name": "demo",
        "data": {"format": "rows", "partitions": 1},
        "model": {"kind": "poisson", "field": "k"},
        "inference": {"minibatch": 5, "linger_ms": 5, "snapshot_ms": 1, "forget": {"window_events": 3}},
    }
    rig = Rig(parse_spec(document))
    for i in range(7):
        rows = np.array([[10.0**i], [-1.0], [10.0**i]])  # the second is not a count
        rig.bus.publish([Output(rig.topic("events"), pack(3, Table(("k",), rows)), partition=0)])
    rig.run(rig.worker(), rig.master(), rounds=30)
    found = rig.snapshot()
    told = (found.payload.statistics[0], found.n_effective, found.n_events, found.counts.n_dead_lettered)
    assert told == (2_220_000, 6, 14, 7)


@EACH
def test_whoever_is_restored_goes_on_with_the_panes(forget: dict[str, float]) -> None:
    """One rig goes through; in the others, all services are replaced after every few events, and topics are
    compacted."""
    totals = []
    for lives in (1, 7, 21):
        rig = Rig(counts(forget, partitions=2), markers=lives == 21)
        worker, master = rig.worker("w0"), rig.master()
        for i in range(42):
            send(rig, {"k": i * i}, at=NOW + 5 * i, partition=i % 2)
            if i % (42 // lives) == 0:
                rig.run(worker, master, rounds=5)
                worker.close()
                master.close()
                for topic in ("statistics", "posterior"):
                    rig.broker.compact(rig.topic(topic))
                worker, master = rig.worker(f"w{i}"), rig.master()
        rig.run(worker, master, rounds=30)
        found = rig.snapshot()
        assert found.n_events == 42
        assert found.n_effective < 20
        totals.append([found.payload.statistics[0], found.payload.statistics[1], found.n_effective])
    assert totals[0] == totals[1] == totals[2]
    expected = sum(i * i for i in (range(42 - 12, 42) if "window_events" in forget else range(42 - 13, 42)))
    assert totals[0][0] == expected


@EACH
def test_only_changed_panes_are_written_and_dead_ones_end_as_tombstones(forget: dict[str, float]) -> None:
    rig = Rig(counts(forget))
    worker, master = rig.worker(), rig.master()
    for i in range(40):
        before, version = len(rig.records("statistics")), rig.snapshot().version if i else 0
        send(rig, {"k": 1}, at=NOW + 20 * i)
        rig.run(worker, master, rounds=12)
        assert rig.snapshot().version > version
        assert len(rig.records("statistics")) - before <= 2, "one pane is new and one has died"
        held = {key.decode() for key, value in panes_of(rig).items() if value is not None}
        assert len(held) == rig.snapshot().n_effective
    assert len(panes_of(rig)) == 40
    rig.clock.advance(2 * 86_400)
    rig.broker.compact(rig.topic("statistics"))
    assert len(rig.records("statistics")) == len(held), "after a day the tombstones go, too"
    master.close()
    rig.run(rig.master(), rounds=3)
    assert rig.snapshot().n_effective == len(held)


def test_panes_that_come_and_go_between_two_snapshots_are_never_written() -> None:
    rig = Rig(counts({"window_events": 2}, minibatch=50, snapshot_ms=10_000))
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master, rounds=3)
    send(rig, *({"k": 1} for _ in range(200)))
    rig.run(worker, master, rounds=30)
    master.close()
    assert (rig.total(), len(rig.records("statistics"))) == (2.0, 2)


def test_positions_that_retention_removed_leave_the_window_like_others() -> None:
    rig = Rig(counts({"window_events": 6}))
    worker, master = rig.worker(), rig.master()
    send(rig, *({"k": 1} for _ in range(8)))
    rig.run(worker, master, rounds=20)
    assert rig.total() == 6.0
    worker.close()
    send(rig, *({"k": 10} for _ in range(6)))
    rig.broker.delete_before(Partition(rig.topic("events"), 0), 12)
    rig.run(rig.worker("b"), master, rounds=20)
    found = rig.snapshot()
    assert (found.payload.statistics[0], found.n_effective, found.counts.n_lost, found.n_events) == (20.0, 2.0, 4, 10)
    assert live(rig) == ["0/12/0", "0/13/0"]


def test_a_loss_longer_than_the_window_leaves_the_prior_and_is_restored_so() -> None:
    rig = Rig(counts({"window_events": 4}))
    worker, master = rig.worker(), rig.master()
    send(rig, *({"k": 1} for _ in range(8)))
    rig.run(worker, master, rounds=20)
    worker.close()
    send(rig, *({"k": 10} for _ in range(9)))
    rig.broker.delete_before(Partition(rig.topic("events"), 0), 17)
    rig.run(rig.worker("b"), master, rounds=20)
    for _ in range(2):
        found = rig.snapshot()
        assert (found.payload.statistics[0], found.n_effective, found.counts.n_lost, found.n_events) == (0.0, 0.0, 9, 8)
        master.close()
        master = rig.master()
        rig.run(master, rounds=3)
    assert live(rig) == []


def _filled(forget: dict[str, float]) -> Rig:
    """A window with some panes, and no service running."""
    rig = Rig(counts(forget))
    worker, master = rig.worker(), rig.master()
    for i in range(9):
        send(rig, {"k": 10**i}, at=NOW + 10 * i)
    rig.run(worker, master, rounds=20)
    worker.close()
    master.close()
    return rig


def _publish(rig: Rig, key: bytes, value: bytes | None) -> None:
    rig.bus.publish([Output(rig.topic("statistics"), value, key, 0)])


def _lost(rig: Rig) -> None:
    _publish(rig, live(rig)[0].encode(), None)


def _stored(rig: Rig, clock: int, index: int, statistics: Any = (1.0, 1.0, 0.0), version: int = 1) -> None:
    pane = Pane(1, np.array(statistics))
    fingerprint = rig.spec.fingerprint
    for key, data in panes.encode(PanePlace(clock, index), pane, fingerprint, version, 1 << 20):
        _publish(rig, key, data)


def _first(rig: Rig) -> PanePlace:
    clock, index, _ = live(rig)[0].split("/")
    return PanePlace(int(clock), int(index))


HARMS: list[tuple[Callable[[Rig], None], str | None]] = [
    (_lost, "events and the snapshot says"),
    (lambda rig: _stored(rig, 0, 0), None),
    (lambda rig: _stored(rig, 0, 10**9), None),
    (lambda rig: _stored(rig, 5, 10), None),
    (lambda rig: _stored(rig, *_first(rig), version=10**6), "events and the snapshot says"),
    (lambda rig: _stored(rig, *_first(rig), statistics=(-1.0, 1.0, 0.0)), "events and the snapshot says"),
    (lambda rig: _publish(rig, b"0/1/0", b"junk"), None),
    (lambda rig: _publish(rig, live(rig)[0].encode(), b"junk"), "events and the snapshot says"),
]
"""What another program writes, and what is wrong once compaction has left nothing else."""
NUMBERED = pytest.mark.parametrize(("harm", "text"), HARMS, ids=range(len(HARMS)))


def _same(rig: Rig, before: Snapshot) -> None:
    found = rig.snapshot()
    np.testing.assert_allclose(found.payload.statistics, before.payload.statistics, rtol=1e-12)
    told = (found.n_effective, found.n_events, found.frontier.positions)
    assert told == (before.n_effective, before.n_events, before.frontier.positions)


@EACH
@NUMBERED
def test_panes_that_are_not_the_snapshots_are_stepped_over(
    forget: dict[str, float], harm: Callable[[Rig], None], text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    rig = _filled(forget)
    before, panes_before = rig.snapshot(), live(rig)
    harm(rig)
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master, rounds=20)
    assert "skipped demo.statistics-0" in caplog.text
    _same(rig, before)
    assert live(rig) == panes_before
    master.close()
    for topic in ("statistics", "posterior"):
        rig.broker.compact(rig.topic(topic))
    caplog.clear()
    send(rig, {"k": 1}, at=NOW + 80)
    rig.run(worker, rig.master(), rounds=20)
    assert rig.snapshot().n_events == before.n_events + 1
    assert "skipped" not in caplog.text, "once is enough"


@EACH
@NUMBERED
def test_panes_that_are_gone_for_good_name_the_remedy(
    forget: dict[str, float], harm: Callable[[Rig], None], text: str | None
) -> None:
    rig = _filled(forget)
    before = rig.snapshot()
    harm(rig)
    for topic in ("statistics", "posterior"):
        rig.broker.compact(rig.topic(topic))
    if text is None:
        rig.run(rig.worker(), rig.master(), rounds=20)
        _same(rig, before)
        return
    with pytest.raises(Fatal, match=text) as caught:
        rig.run(rig.master(), rounds=3)
    assert "demo.statistics-0: the panes on it are not those of the posterior's version" in str(caught.value)
    assert "`streaminfer repair SPEC` shows which records block it" in str(caught.value)


def test_panes_without_a_posterior_stop_the_master() -> None:
    rig = Rig(counts({"window_events": 6}))
    _stored(rig, 0, 0)
    with pytest.raises(Fatal, match="version 0: there is no snapshot"):
        rig.run(rig.master(), rounds=3)


class _Hides(SimulatedBus):
    """An unfinished transaction of another program stands on the statistics topic."""

    def hidden(self, topic: str) -> dict[int, int]:
        return {0: 1} if topic.endswith(".statistics") else super().hidden(topic)


class _LiesOnce(Faults):
    """The third commit is reported and never happens, as with brokers that fail."""

    commits = 0

    def lies(self, operation: str) -> bool:
        self.commits += operation == "commit"
        return operation == "commit" and self.commits == 3


@EACH
def test_panes_of_a_commit_that_was_lost_are_written_again(forget: dict[str, float]) -> None:
    rig = Rig(counts(forget))
    worker, master = rig.worker(), rig.master(_LiesOnce())
    resets = 0
    for i in range(9):
        send(rig, {"k": 10**i}, at=NOW + 10 * i)
        for _ in range(8):
            worker.step(0.0)
            try:
                master.step(0.0)
            except Unavailable:
                resets += 1
                master.reset()
            rig.clock.advance(0.01)
    assert resets == 1
    master.close()
    rig.run(worker, rig.master(), rounds=20)
    assert rig.total() == (111_111_000 if "window_events" in forget else 111_111_100)


@EACH
def test_panes_that_may_be_hidden_are_waited_for(forget: dict[str, float]) -> None:
    rig = _filled(forget)
    master = Master(rig.spec, _Hides(rig.broker), rig.clock, rig._master_metrics, wall=rig.clock)
    with pytest.raises(Unavailable, match=r"demo.statistics: the newest snapshot may be behind"):
        rig.run(master, rounds=3)


def test_a_pane_too_large_for_a_record_goes_in_parts() -> None:
    document: dict[str, Any] = {
        "name": "demo",
        "model": {"kind": "gaussian", "fields": [f"x{i}" for i in range(130)]},
        "data": {"partitions": 1},
        "inference": {"minibatch": 4, "linger_ms": 5, "snapshot_ms": 1, "forget": {"window_events": 3}},
    }
    rig = Rig(parse_spec(document), max_record_bytes=snapshots_fit)
    events = np.random.default_rng(1).normal(size=(10, 130))
    for event in events:
        data = json.dumps({f"x{i}": x for i, x in enumerate(event.tolist())}).encode()
        rig.bus.publish([Output(rig.topic("events"), data, partition=0)])
    with closing(rig.master()) as first, closing(rig.worker()) as worker:
        rig.run(worker, first, rounds=30)
    send(rig, b"moves the window")
    rig.run(rig.worker("b"), rig.master(), rounds=30)
    found, model = rig.snapshot(), rig.spec.model
    assert live(rig) == ["0/8/0", "0/8/1", "0/9/0", "0/9/1"]
    assert found.n_effective == 2
    want = model.posterior(model.statistics(events[-2:])).natural
    np.testing.assert_allclose(model.posterior(found.payload.statistics).natural, want, rtol=1e-9, atol=1e-9)


snapshots_fit = snapshots.ENVELOPE + 4096
"""Bytes of a record: a manifest fits, the statistics of a pane need several."""


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
@pytest.mark.parametrize("minibatch", [1, 7, 1000])
def test_fit_keeps_a_window_of_rows(example: Example, minibatch: int) -> None:
    events = example.events(np.random.default_rng(5), 100)
    document: dict[str, Any] = {"name": "demo", "model": {"kind": example.kind, **example.options}}
    by_events = {**document, "inference": {"minibatch": minibatch, "forget": {"window_events": 20}}}
    by_time = {
        **document,
        "data": {"timestamp": "t.at"},
        "inference": {"minibatch": minibatch, "forget": {"window_seconds": 19.5}},
    }
    rows = [{**row, "t": {"at": NOW + i}} for i, row in enumerate(_rows(example, events))]
    for spec in (parse_spec(by_events), parse_spec(by_time)):
        expected = spec.model.posterior(spec.model.statistics(events[-20:]))
        found = fit(spec, rows)
        np.testing.assert_allclose(found.posterior.natural, expected.natural, rtol=1e-9)
        assert (found.n_events, found.n_effective) == (100, 20)


def test_the_summary_says_how_many_are_in_the_window(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(fit(counts({"window_events": 20}), [{"k": 1}] * 50))
    assert capsys.readouterr().out.splitlines()[1].startswith("50 events, 20 of them in the window; ")


def test_fit_by_time_needs_to_know_the_times() -> None:
    with pytest.raises(ValueError, match=r"inference.forget: window_seconds needs the rows' times"):
        fit(counts({"window_seconds": 1}), [{"k": 1}])
