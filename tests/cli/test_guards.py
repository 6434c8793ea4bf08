"""`up` beside another `up`, in a folder with unlucky file names, and stopped before its time."""

from __future__ import annotations

import signal
import time

import pytest

from tests.cli.conftest import Workplace
from tests.faults.programs import Programs, n_events, services, wait_for

pytestmark = pytest.mark.xdist_group("processes")


def test_a_second_up_on_the_same_bus_disturbs_nobody(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    serving = programs.start("up", workplace.spec, "--workers", 1, "--bus", bus_url)
    wait_for(lambda: bool(services(serving.pid, "master")), "a master runs")
    wait_for(lambda: "version 1" in serving.err, "a first snapshot")
    programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", bus_url)
    assert n_events(workplace.spec, bus_url) == 100
    time.sleep(3)
    assert serving.alive, serving.err
    assert "exit code" not in serving.err
    assert serving.end() == 0


def test_modules_of_the_current_directory_are_not_imported(
    programs: Programs, bus_url: str, workplace: Workplace
) -> None:
    (programs.folder / "random.py").write_text("raise SystemExit('imported from the data folder')\n")
    programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", bus_url)
    assert n_events(workplace.spec, bus_url) == 100


def test_until_idle_that_is_stopped_early_says_so(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    large = programs.folder / "large.csv"
    large.write_text("y\n" + "1\n" * 400_000)
    up = programs.start("up", workplace.spec, "--data", large, "--until-idle", "--bus", bus_url)
    wait_for(lambda: "to come" in up.err, "the load begins")
    assert up.end(signal.SIGTERM) == 1
    assert "stopped before all data was in the posterior" in up.err
