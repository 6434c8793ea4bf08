"""`rebuild`: a changed spec learns the log again under a new name, and says what the log no longer has."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Partition
from streaminfer.runtime.files.rebuilding import gone
from tests.cli.conftest import Workplace
from tests.faults.programs import Programs, document, wait_for

pytestmark = pytest.mark.xdist_group("processes")


@pytest.fixture
def changed(workplace: Workplace, tmp_path: Path) -> Path:
    """The spec with another prior, in a folder of its own."""
    path = tmp_path / "coin.yaml"
    path.write_text(workplace.spec.read_text().replace("field: y", "field: y, prior: {alpha: 10}"))
    return path


def test_a_changed_spec_learns_all_that_the_log_has(
    programs: Programs, workplace: Workplace, prepared_url: str, changed: Path
) -> None:
    done = programs.run("rebuild", changed, "--as", "coin-2", "--bus", prepared_url)
    new = changed.with_name("coin-2.yaml")
    assert done.out.splitlines() == [
        f"coin-2: has caught up with coin.events: 100 events; spec: {new}",
        "coin-2: the log has everything that coin has learned from",
    ]
    assert document(new, prepared_url)["natural"] == [80, 31]
    assert document(workplace.spec, prepared_url)["natural"] == [71, 31], "the old one stays"
    programs.run("rebuild", changed, "--as", "coin-2", "--only-watch", "--bus", prepared_url)


def test_services_that_run_elsewhere_are_watched(
    programs: Programs, workplace: Workplace, prepared_url: str, changed: Path
) -> None:
    watching = programs.start("rebuild", changed, "--as", "coin-3", "--only-watch", "--bus", prepared_url)
    new = changed.with_name("coin-3.yaml")
    wait_for(new.exists, "the spec")
    assert watching.alive
    up = programs.start("up", new, "--bus", prepared_url)
    assert watching.process.wait(120) == 0
    assert "coin-3: has caught up with coin.events: 100 events" in watching.out
    assert up.end(signal.SIGTERM) == 0


def test_what_the_log_no_longer_has_is_told(workplace: Workplace, prepared_url: str, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'bus'}"
    workplace.programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", url)
    spec = load_spec(workplace.spec)
    with open_bus(url) as bus:
        assert gone(spec, bus) == []
        bus.delete_before(Partition("coin.events", 1), 20)
        (found,) = gone(spec, bus)
    assert str(found) == "coin.events-1 [0, 20)"


def test_mistakes(workplace: Workplace, prepared_url: str, changed: Path) -> None:
    bus = ["--bus", prepared_url]
    called = workplace.call("rebuild", changed, "--as", "coin", *bus, code=2)
    assert "--as: must be another name than that of" in called.err
    called = workplace.call("rebuild", changed, "--as", "../coin", *bus, code=2)
    assert "name: must be" in called.err
    (changed.parent / "taken.yaml").write_text("name: taken\n")
    called = workplace.call("rebuild", changed, "--as", "taken", *bus, code=2)
    assert "taken.yaml exists and is not this spec: remove it, or take another name" in called.err
