"""The monitor's side of measuring, with a real child: what is due, once for each version, whatever becomes of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.measuring.published import Published
from streaminfer.runtime.monitoring.measuring import measuring as module
from streaminfer.runtime.monitoring.measuring.measuring import Done, Measuring
from streaminfer.runtime.monitoring.measuring.tasks.table import TASKS
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.counts import Totals
from streaminfer.variational.held import Held
from streaminfer.variational.snapshot import Snapshot
from tests.runtime.monitoring.measuring.measuring_rig import (
    LINEAR,
    LOGISTIC,
    linear_rows,
    logistic_rows,
    posterior,
    sent,
    spec_of,
)

WAIT_S = 120.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_S", 0.0)
    monkeypatch.setattr(module, "EVERY_S", 0.0)


class Rig:
    """A posterior of events on an embedded bus, and its monitor's part."""

    def __init__(self, spec: Spec, snapshot: Snapshot, measuring: Measuring) -> None:
        self.spec, self.snapshot, self.measuring = spec, snapshot, measuring
        self.found: list[Published] = []

    def poll(self, until: Callable[[], bool], seconds: float = WAIT_S) -> None:
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, f"only {self.told()} came"
            self.found += self.measuring.poll()
            time.sleep(0.01)

    def told(self) -> list[tuple[str, int, str]]:
        return [(each.measurement.check, each.moment.version, each.measurement.status) for each in self.found]

    def child(self) -> int:
        return self.measuring.helper.pids[-1]


@contextmanager
def rig_of(
    spec: Spec, rows: list[dict[str, float]], folder: Path, done: dict[str, Done] | None = None
) -> Iterator[Rig]:
    url = f"embedded:{folder}"
    with open_bus(url) as bus:
        sent(spec, bus, rows)
        snapshot = posterior(spec, bus, rows)
    with closing(Measuring(spec, url, "test", done)) as measuring:
        yield Rig(spec, snapshot, measuring)


def test_every_check_is_made_once_for_a_version(tmp_path: Path) -> None:
    spec = spec_of(LINEAR, share=1.0, bdmc={"datasets": 1, "temperatures": 20, "events": 20})
    with rig_of(spec, linear_rows(200), tmp_path) as rig:
        checks = [task.check for task in module.tasks_of(spec)]
        rig.measuring.see(rig.snapshot)
        rig.poll(lambda: len(rig.found) == len(checks))
        assert sorted(check for check, _, _ in rig.told()) == sorted(checks)
        by_check = {each.measurement.check: each.measurement for each in rig.found}
        assert by_check["coverage"].status == by_check["audit"].status == "good", by_check
        assert by_check["coverage"].target == "all"
        assert by_check["coverage"].seconds > 0
        assert len(rig.measuring.helper.pids) == 1
        # a new version: those of days are not due again
        rig.measuring.see(replace(rig.snapshot, version=2))
        days = {"audit", "evidence"}
        rig.poll(lambda: len(rig.found) == 2 * len(checks) - len(days & set(checks)))
        again = rig.told()[len(checks) :]
        assert sorted(check for check, _, _ in again) == sorted(set(checks) - days)
        assert {version for _, version, _ in again} == {2}
        assert rig.measuring.poll() == []
        # the same for a monitor that comes after this one
        later = Measuring(rig.spec, "embedded:nowhere", "next")
        for each in rig.found:
            later.saw(each)
        later.see(replace(rig.snapshot, version=2))
        assert later.poll() == []
        assert later.helper.pids == []


def test_a_killed_child_makes_one_check_unknown_and_stops_nothing(tmp_path: Path) -> None:
    spec = spec_of(LOGISTIC, share=0.5)
    done = {check: Done(1, time.time()) for check in ("audit", "evidence", "calibration", "movement")}
    with rig_of(spec, logistic_rows(300), tmp_path, done) as rig:
        rig.measuring.see(rig.snapshot)
        rig.poll(lambda: rig.measuring.helper.alive)
        assert os.getpgid(rig.child()) != os.getpgid(0), "an interrupt of the terminal must not end it"
        os.kill(rig.child(), signal.SIGKILL)
        rig.poll(lambda: len(rig.found) == 2)
        assert rig.told() == [("coverage", 1, "unknown"), ("stein", 1, "good")]
        assert "was ended from outside" in rig.found[0].measurement.sentence
        assert len(rig.measuring.helper.pids) == 2


def test_a_child_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(LOGISTIC, share=0.01)
    done = {check: Done(1, time.time()) for check in ("audit", "evidence", "calibration", "movement", "stein")}
    with rig_of(spec, logistic_rows(100), tmp_path, done) as rig:
        monkeypatch.setattr(module, "START_S", 0.3 - TASKS["coverage"].cpu_seconds / 0.01)
        rig.measuring.see(rig.snapshot)
        rig.poll(lambda: bool(rig.found))
        assert rig.told() == [("coverage", 1, "unknown")]
        assert "took too long" in rig.found[0].measurement.sentence
        assert not rig.measuring.helper.alive
        # what it has taken must first be there again
        rig.measuring.see(replace(rig.snapshot, version=2))
        assert rig.measuring.poll() == []


def test_short_jobs_and_rest_start_no_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_S", 3.0)
    with rig_of(spec_of(LINEAR), linear_rows(50), tmp_path) as rig:
        assert rig.measuring.poll() == []
        rig.measuring.see(rig.snapshot)
        assert rig.measuring.poll() == []
        assert rig.measuring.helper.pids == []


def test_an_idle_child_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.2)
    done = {task.check: Done(1, time.time()) for task in module.tasks_of(spec_of(LINEAR)) if task.check != "coverage"}
    with rig_of(spec_of(LINEAR, share=1.0), linear_rows(50), tmp_path, done) as rig:
        rig.measuring.see(rig.snapshot)
        rig.poll(lambda: bool(rig.found))
        rig.poll(lambda: not rig.measuring.helper.alive)


def test_posteriors_of_keys_are_unknown_with_a_sentence() -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}, "key": "city"})
    measuring = Measuring(spec, "embedded:nowhere", "test")
    measuring.see(Snapshot(spec.fingerprint, 2, Held(spec.model.empty())))
    assert measuring.poll() == [], "nothing is measured before there are events"
    measuring.see(Snapshot(spec.fingerprint, 3, Held(spec.model.empty()), counts=Totals(5)))
    found = measuring.poll()
    assert {each.measurement.status for each in found} == {"unknown"}
    assert all("Every key has a posterior of its own" in each.measurement.sentence for each in found)
    assert measuring.helper.pids == []
    assert measuring.poll() == []


def test_the_child_opens_the_bus_of_its_monitor(bus_url: str) -> None:
    spec, rows = spec_of(LINEAR, share=1.0), linear_rows(100)
    done = {task.check: Done(1, time.time()) for task in module.tasks_of(spec) if task.check != "audit"}
    with open_bus(bus_url) as bus:
        sent(spec, bus, rows)
        snapshot = posterior(spec, bus, rows)
        with closing(Measuring(spec, str(bus), "test", done)) as measuring:
            rig = Rig(spec, snapshot, measuring)
            measuring.see(snapshot)
            rig.poll(lambda: bool(rig.found))
    assert rig.told() == [("audit", 1, "good")]
