"""`verdict`: the words, the document and the exit codes, from what is on a bus."""

from __future__ import annotations

import time

import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Output
from streaminfer.measuring.measurement import Measurement, Status
from streaminfer.measuring.published import Moment, Published
from streaminfer.runtime import names
from streaminfer.spec import Spec
from streaminfer.wire import beats, measurements
from streaminfer.wire.beats import Beat
from tests.cli.conftest import SPEC, Workplace

pytestmark = pytest.mark.xdist_group("processes")

QUESTIONS = ["fresh", "complete", "computed_right", "fits_the_data"]


def measured(spec: Spec, bus: Bus, check: str, status: Status) -> None:
    found = Measurement(check, status, f"The {check} is {status}.", "" if status == "good" else "Do something.")
    key, data = measurements.encode(Published(spec.fingerprint, "m", 1, Moment(1, n_events=100), found), 1 << 20)
    bus.publish([Output(names.topic(spec, "metrics"), data, key)])


def test_exit_codes_follow_what_was_measured(workplace: Workplace, prepared_url: str) -> None:
    spec = load_spec(workplace.spec)

    def verdict(code: int) -> tuple[str, dict[str, object]]:
        said = workplace.call("verdict", workplace.spec, "--bus", prepared_url, code=code).out
        (document,) = workplace.call("verdict", workplace.spec, "--json", "--bus", prepared_url, code=code).documents
        return said, document

    said, document = verdict(3)
    assert said.startswith(
        "coin: watch\nfresh?          good     All events that should be in the posterior are in it."
    )
    assert "computed right? unknown  No monitor has measured it yet (check audit)." in said
    assert (document["name"], document["verdict"], document["n_events"]) == ("coin", "watch", 100)
    with open_bus(prepared_url) as bus:
        measured(spec, bus, "audit", "good")
        measured(spec, bus, "calibration", "good")
        said, document = verdict(0)
        assert said.startswith("coin: trusted\n")
        assert [each["question"] for each in document["reasons"]] == [*QUESTIONS[:3], *QUESTIONS[2:]]  # type: ignore[attr-defined]
        measured(spec, bus, "audit", "fail")
        said, _ = verdict(4)
        assert said.startswith("coin: do not trust\n")
        assert "computed right? fail     The audit is fail.\n                         Do something.\n" in said
        measured(spec, bus, "audit", "good")
        key, data = beats.encode(Beat("master", "master-9", 1, "h", True, {}, 1))
        minute_ago = int(time.time() * 1000) - 60_000
        bus.publish([Output(names.topic(spec, "health"), data, key, timestamp=minute_ago)])
        said, _ = verdict(3)
        assert "Not heard of for long: master-9." in said


def test_without_a_posterior_or_topics_it_is_watch(workplace: Workplace, shared_bus_url: str) -> None:
    other = workplace.folder / "nothing.yaml"
    other.write_text(SPEC.replace("coin", "nothing"))
    open_bus(shared_bus_url).close()
    said = workplace.call("verdict", other, "--bus", shared_bus_url, code=3).out
    assert said.startswith("nothing: watch\nfresh?          unknown  There is no posterior yet.")


def test_a_monitor_may_have_several_specs_and_others_one(workplace: Workplace) -> None:
    other = workplace.folder / "other.yaml"
    other.write_text(SPEC.replace("coin", "other"))
    said = workplace.call("run", "master", workplace.spec, other, code=2).err
    assert "SPEC: must be one with master; only monitor takes several (got 2)" in said
    said = workplace.call("run", "monitor", workplace.spec, workplace.spec, code=2).err
    assert "SPEC: must have different names" in said
