"""`report` and `snapshot --plot`: files that say what is on a bus."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.cli.conftest import Workplace

pytestmark = pytest.mark.xdist_group("processes")


def test_report_and_plot_of_a_bus(workplace: Workplace, tmp_path: Path) -> None:
    bus = f"embedded:{tmp_path / 'bus'}"
    assert workplace.call("report", workplace.spec, "--bus", bus, code=1).err
    workplace.programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", bus)
    file = tmp_path / "coin.html"
    assert f"wrote {file}" in workplace.call("report", workplace.spec, "--bus", bus, "-o", file).out
    assert "<h2>Parameters</h2>" in file.read_text()
    picture = tmp_path / "coin.svg"
    assert "wrote" in workplace.call("snapshot", workplace.spec, "--bus", bus, "--plot", picture).out
    ElementTree.fromstring(picture.read_text())  # noqa: S314 (ours)
    assert "must end in .svg" in workplace.call("snapshot", workplace.spec, "--bus", bus, "--plot", "x.gif", code=2).err
