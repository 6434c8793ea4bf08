"""Tests of one group run in one process of pytest-xdist, so that they share what is slow to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HOOKS = "pytest_collection_finish, pytest_collection_modifyitems, pytest_configure, pytest_unconfigure"
CONFTEST = f"from tests.conftest import {HOOKS}, pytest_xdist_make_scheduler\n"
TESTS = """
import os, pathlib, time, pytest

pytestmark = pytest.mark.xdist_group("module")

@pytest.mark.parametrize("name", ["a@b", "[c]", "d", "e", "f", "g"])
def test_of_the_module(name):
    leave("module")

@pytest.mark.xdist_group("other")
@pytest.mark.parametrize("name", range(6))
def test_of_another_group(name):
    leave("other")

def leave(group):
    with (pathlib.Path(os.environ["FOUND"]) / group).open("a") as out:
        out.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
    time.sleep(0.05)
"""
ROOT = Path(__file__).resolve().parents[1]


def test_a_group_stays_together_and_groups_are_shared_out(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_groups.py").write_text(TESTS)
    without = ("STREAMINFER_TEST_RUN", "PYTEST_XDIST_WORKER")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"--rootdir={tmp_path}"],
        cwd=tmp_path, env={**kept, "PYTHONPATH": str(ROOT), "FOUND": str(tmp_path)}, text=True, capture_output=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ran = {name: (tmp_path / name).read_text().split() for name in ("module", "other")}
    assert {name: len(workers) for name, workers in ran.items()} == {"module": 6, "other": 6}
    assert [len(set(workers)) for workers in ran.values()] == [1, 1], f"a group was split: {ran}"
    assert ran["module"][0] != ran["other"][0], "one process did everything"
