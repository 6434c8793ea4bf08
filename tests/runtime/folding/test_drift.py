"""Alarms of drift in the services: the same after restarts, and shown in every place that shows a posterior."""

from __future__ import annotations

import json
import logging
from typing import Any

import numpy as np
import pytest

from streaminfer import fit, parse_spec
from streaminfer.cli.snapshot import print_summary
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from tests.made import changed
from tests.runtime.rig import Rig

REACT = {"half_life_events": 8, "for_events": 60}
EVENTS, CHANGE = 520, 400
VALUES = np.r_[
    np.random.default_rng(2).poisson(5, CHANGE), np.random.default_rng(3).poisson(60, EVENTS - CHANGE)
].tolist()


def counts(drift: dict[str, Any] | None, partitions: int = 1, **inference: Any) -> Spec:
    settings = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, **inference}
    given = None if drift is None else {"events_per_false_alarm": 1e4, "block_events": 4, **drift}
    model = {"kind": "poisson", "field": "k"}
    document = {"name": "demo", "data": {"partitions": partitions}, "model": model, "inference": settings}
    return parse_spec({**document, "drift": given})


def play(spec: Spec, lives: int = 1, closing: bool = True) -> Rig:
    """All values, a minibatch at a time so that bases are fresh; all services are replaced `lives` - 1 times.

    Without `closing` the last of them stay: a master that has left tells nothing more.
    """
    rig = Rig(spec)
    partitions = spec.data.partitions or 1
    worker, master = rig.worker("w0"), rig.master()
    rig.run(worker, master, rounds=4)
    steps = EVENTS // (4 * partitions)
    for step in range(steps):
        for i in range(4 * partitions):
            rig.send(VALUES[step * 4 * partitions + i], partition=i % partitions)
        rig.run(worker, master, rounds=4)
        if step % (steps // lives) == steps // lives - 1 and lives > 1:
            worker.close()
            master.close()
            worker, master = rig.worker(f"w{step}"), rig.master()
            rig.run(worker, master, rounds=4)
    rig.run(worker, master, rounds=10)
    if closing:
        worker.close()
        master.close()
    assert rig.snapshot().n_events == EVENTS
    return rig


def same(a: Snapshot, b: Snapshot) -> None:
    assert a.drift == b.drift
    assert a.payload.statistics.tobytes() == b.payload.statistics.tobytes()
    assert a.n_effective == b.n_effective


@pytest.mark.parametrize("forget", [None, {"half_life_events": 100.0}], ids=str)
@pytest.mark.parametrize("react", ["report", REACT], ids=str)
def test_a_master_that_is_restored_has_the_same_alarms_and_posterior(react: Any, forget: Any) -> None:
    spec = counts({"react": react}, forget=forget)
    through, restarted = play(spec).snapshot(), play(spec, lives=13).snapshot()
    same(through, restarted)
    assert through.drift is not None
    assert through.drift.n_alarms == 1
    assert CHANGE < through.drift.alarm_at < CHANGE + 60
    rows = [{"k": k} for k in VALUES]
    same(fit(spec, rows).snapshot, through)
    if forget is None:
        assert (through.n_effective < 120) == (react != "report")


def test_two_partitions_are_watched_and_restored_too() -> None:
    spec = counts({"react": REACT}, partitions=2)
    found = play(spec, lives=5).snapshot()
    assert found.drift is not None
    assert found.drift.n_alarms == 1
    same(found, play(spec).snapshot())


def test_a_master_killed_before_its_snapshot_repeats_the_alarm() -> None:
    """The alarm is folded and not committed; the next master folds the same increments from the log."""
    spec = counts({"react": REACT})
    rig = Rig(spec)
    worker, master = rig.worker("w"), rig.master()
    rig.run(worker, master, rounds=4)
    for step in range(EVENTS // 4):
        rig.send(*VALUES[4 * step : 4 * step + 4])
        if 4 * step == CHANGE - 40:
            master.close()
            master = rig.master()
        rig.run(worker, master, rounds=4)
        if 4 * step == CHANGE + 8:
            for shard in master._shards.values():  # what is folded and not published is gone with the process
                shard.snapshot = shard.published
            master.reset()
            rig.run(worker, master, rounds=8)
    rig.run(worker, master, rounds=10)
    same(rig.snapshot(), play(spec).snapshot())


def test_where_it_is_told(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.WARNING):
        rig = play(counts({}), closing=False)
    snapshot = rig.snapshot()
    assert snapshot.drift is not None
    at, evidence = snapshot.drift.alarm_at, snapshot.drift.log_evidence
    assert [r.message for r in caplog.records if "drift" in r.message] == [
        f"drift: alarm 1 after {at:,} events: scores fell; only reported"
    ]
    view = PosteriorSnapshot(rig.spec, snapshot)
    assert json.loads(json.dumps(view.to_json()))["drift"] == {
        "log_evidence": evidence, "n_alarms": 1, "alarm_at": at
    }  # fmt: skip
    print_summary(view)
    line = f"drift: 1 alarm, the newest after {at} events; log evidence {evidence:.3g}, alarm at 9.21"
    assert line in capsys.readouterr().out.splitlines()
    assert rig.value("master_drift_alarms") == 1.0
    assert rig.value("master_drift_log_evidence") == evidence


def test_before_the_first_alarm_and_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"k": k} for k in VALUES[:300]]
    view = fit(counts({}), rows)
    assert view.snapshot.drift is not None
    document = view.to_json()["drift"]
    assert document == {"log_evidence": view.snapshot.drift.log_evidence, "n_alarms": 0, "alarm_at": None}
    assert document["log_evidence"] > 0
    print_summary(view)
    assert "drift: 0 alarms; log evidence" in capsys.readouterr().out
    plain = fit(counts(None), rows)
    assert plain.to_json()["drift"] is None
    print_summary(plain)
    assert "drift" not in capsys.readouterr().out


def test_other_rules_of_a_report_go_on_with_the_posterior() -> None:
    """Another budget keeps the evidence, another size of blocks starts anew; the alarms stay."""
    rig = play(counts({}))
    before = rig.snapshot().drift
    assert before is not None
    for spec, kept in [(counts({"events_per_false_alarm": 1e9}), True), (counts({"block_events": 5}), False)]:
        rig.spec = spec
        worker, master = rig.worker("x"), rig.master()
        rig.run(worker, master, rounds=4)
        rig.send(60, 60, 60, 60)
        rig.run(worker, master, rounds=6)
        found = rig.snapshot().drift
        assert found is not None
        assert (found.n_alarms, found.alarm_at) == (before.n_alarms, before.alarm_at)
        assert bool(found.pools) == kept
        worker.close()
        master.close()


def test_a_reaction_is_another_posterior() -> None:
    rig = play(counts({}))
    rig.spec = counts({"react": REACT})
    master = rig.master()
    with pytest.raises(Exception, match="was made by another spec"):
        rig.run(master)


def test_a_reaction_is_told(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.WARNING):
        rig = play(counts({"react": REACT}))
    assert any(r.message.endswith("scores fell; forgetting faster") for r in caplog.records)
    snapshot = rig.snapshot()
    print_summary(PosteriorSnapshot(rig.spec, changed(snapshot, n_dead_lettered=0)))
    assert f"{EVENTS} events, worth {snapshot.n_effective:,.6g} by their weights; " in capsys.readouterr().out
