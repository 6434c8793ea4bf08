"""`doctor`: what is wrong, in one line each with a remedy, and an exit code that says whether anything is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output, Partition, Position
from streaminfer.cli.doctor import _line
from streaminfer.runtime import names
from streaminfer.runtime.doctoring.finding import Finding
from streaminfer.wire import beats
from streaminfer.wire.beats import Beat
from tests.cli.conftest import Called, Workplace
from tests.faults.buses import params

pytestmark = pytest.mark.xdist_group("processes")

CHECKS = {"bus", "topics", "rights", "schemas", "fingerprint", "posterior", "services", "clock", "lag", "groups"}


@pytest.fixture(params=params())
def every_bus_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param(request, tmp_path))


def wrong(called: Called) -> dict[str, Any]:
    """The only thing that is wrong."""
    (found,) = (each for each in called.documents if each["state"] == "wrong")
    assert found["remedy"]
    return found


def test_nothing_is_wrong(workplace: Workplace, every_bus_url: str) -> None:
    workplace.programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", every_bus_url)
    found = workplace.call("doctor", workplace.spec, "--json", "--bus", every_bus_url).documents
    assert {each["check"] for each in found} == CHECKS
    assert {each["state"] for each in found} == {"good", "note"}
    (rights,) = (each["text"] for each in found if each["check"] == "rights")
    if every_bus_url.startswith("kafka"):
        assert "increments read and write" in rights
    lines = workplace.call("doctor", workplace.spec, "--role", "master", "--bus", every_bus_url).out.splitlines()
    assert len(lines) == len(found)
    assert lines[0].split()[:2] == ["ok", "bus"]
    assert any("master: none is running. Remedy: start it" in line for line in lines)


def test_a_finding_is_one_line_whatever_a_bus_or_a_registry_says() -> None:
    assert "\n" not in _line(Finding("schemas", "wrong", "refused:\nok     rights       all of them", "grant it"))


def test_before_anything_there_are_no_topics(workplace: Workplace, bus_url: str) -> None:
    open_bus(bus_url).close()
    called = workplace.call("doctor", workplace.spec, "--json", "--bus", bus_url, code=1)
    missing = [each for each in called.documents if each["state"] == "wrong"]
    assert {each["check"] for each in missing} == {"topics"}
    assert all("is missing" in each["text"] and "--apply" in each["remedy"] for each in missing)


def test_a_bus_that_does_not_answer(workplace: Workplace, tmp_path: Path) -> None:
    called = workplace.call("doctor", workplace.spec, "--json", "--bus", f"embedded:{tmp_path / 'none'}", code=1)
    assert wrong(called)["check"] == "bus"


def test_another_spec_is_told_which_field_differs(workplace: Workplace, prepared_url: str, tmp_path: Path) -> None:
    other = tmp_path / "coin.yaml"
    other.write_text(workplace.spec.read_text().replace("field: y", "field: y, prior: {alpha: 2}"))
    found = wrong(workplace.call("doctor", other, "--json", "--bus", prepared_url, code=1))
    assert found["check"] == "fingerprint"
    assert "model.prior.alpha is 1" in found["text"]


@pytest.fixture
def spoiled(workplace: Workplace, tmp_path: Path) -> str:
    """A bus of its own with a posterior, for a test that spoils it."""
    url = f"embedded:{tmp_path / 'spoiled'}"
    workplace.programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", url)
    return url


def test_what_is_spoiled_is_found(workplace: Workplace, spoiled: str) -> None:
    """A silent process, a clock that is ahead, a group beyond the log; one after the other on one bus."""
    spec, now = load_spec(workplace.spec), int(time.time() * 1000)
    with open_bus(spoiled) as bus:

        def beat(instance: str, at: int) -> None:
            key, data = beats.encode(Beat("master", instance, at, "there", True, {}, at))
            bus.publish([Output(names.topic(spec, "health"), data, key)])

        beat("m-1", now - 60_000)
        found = wrong(workplace.call("doctor", workplace.spec, "--json", "--bus", spoiled, code=1))
        assert (found["check"], "master m-1 on there has been silent for 6" in found["text"]) == ("services", True)
        beat("m-1", now + 3_600_000)
        found = wrong(workplace.call("doctor", workplace.spec, "--json", "--bus", spoiled, code=1))
        assert (found["check"], "that of master on there is 3" in found["text"]) == ("clock", True)
        bus.publish([Output(names.topic(spec, "health"), None, beats.key_of("master", "m-1"))])
        with bus.writer("test") as writer:
            writer.commit([], {Partition("coin.events", 0): Position(1000)}, names.worker_group(spec))
        called = workplace.call("doctor", workplace.spec, "--json", "--bus", spoiled, code=1)
        assert {each["check"] for each in called.documents if each["state"] == "wrong"} == {"groups"}


def test_a_topic_that_is_kept_in_another_way(workplace: Workplace, spoiled: str, tmp_path: Path) -> None:
    wider = tmp_path / "coin.yaml"
    wider.write_text(workplace.spec.read_text().replace("partitions: 2", "partitions: 3"))
    found = wrong(workplace.call("doctor", wider, "--json", "--bus", spoiled, code=1))
    assert found["text"] == "coin.events has 2 of 3 partitions"
