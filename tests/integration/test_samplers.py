"""Sampled posteriors from every data format and from topics of somebody else: the draws that `fit` makes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import connect, fit, load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output, Topic
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.sampling import scratch
from streaminfer.spec import Spec
from tests.faults.buses import kafka_later
from tests.faults.programs import Programs, document
from tests.integration.existing import Running
from tests.integration.test_formats import FORMS, ORDER

RNG = np.random.default_rng(7)
EVENTS = [{"a": float(a), "b": float(b), "t": float(a - 2 * b + e)} for a, b, e in RNG.normal(size=(400, 3))]
MODEL = {"kind": "linear_regression", "features": ["a", "b"], "target": "t"}
FORMATS: dict[str, dict[str, Any]] = {"json": {"format": "json"}, **{name: data for name, (data, _) in FORMS.items()}}


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path / "scratch"))
    return


def spec_of(folder: Path, data: dict[str, Any], **inference: Any) -> Spec:
    (folder / "order.avsc").write_text(json.dumps(ORDER))
    settings = {"method": "mh", "chains": 2, "draws": 50, "warmup": 50, **inference}
    text = {"name": "sampled", "data": {"partitions": 1, **data}, "model": MODEL, "inference": settings}
    (folder / "spec.yaml").write_text(json.dumps(text))
    return load_spec(folder / "spec.yaml")


def check(folder: Path, url: str, form: str) -> None:
    """Good events by `produce`, then bad ones: the draws of a fit, and each bad event once among dead letters."""
    spec, (_, bad) = spec_of(folder, FORMATS[form]), FORMS.get(form, ({}, [(b"{", "not JSON")]))
    with connect(url) as connection:
        connection.produce(spec, EVENTS)
        connection.bus.publish([Output("sampled.events", value, partition=0) for value, _ in bad])
        running = Running(spec, connection.bus)
        try:
            found = running.until_idle()
        finally:
            running.close()
        letters = list(Pending(spec, connection.bus))
        seen = connection.snapshot(spec)
    assert found.n_events == 400
    assert found.counts.n_dead_lettered >= len(bad)
    assert Counter(letter.value for letter in letters) == Counter(value for value, _ in bad)
    assert seen is not None
    expected = fit(spec, EVENTS).to_inference_data()["posterior"]
    for name, values in seen.to_inference_data()["posterior"].data_vars.items():
        assert np.array_equal(values.to_numpy(), expected[name].to_numpy())


@kafka_later
@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_gives_the_draws_of_a_fit(tmp_path: Path, bus_url: str, form: str) -> None:
    check(tmp_path, bus_url, form)


def test_a_topic_of_somebody_else_with_several_partitions(tmp_path: Path, bus_url: str) -> None:
    """By partition, then by position; on every bus in every run."""
    spec = spec_of(tmp_path, {"topic": "orders", "fields": {"a": "in.a", "b": "in.b"}, "partitions": None})
    with open_bus(bus_url) as bus:
        bus.create([Topic("orders", partitions=3)])
        for i, event in enumerate(EVENTS):
            value = json.dumps({"in": {"a": event["a"], "b": event["b"]}, "t": event["t"]}).encode()
            bus.publish([Output("orders", value, partition=i % 3), *([Output("orders", b"?")] if i == 9 else [])])
        running = Running(spec, bus)
        try:
            found = running.until_idle()
        finally:
            running.close()
    with connect(bus_url) as connection:
        seen = connection.snapshot(spec)
    assert seen is not None
    assert (found.n_events, found.counts.n_dead_lettered) == (400, 1)
    assert seen.frontier.keys() == {"orders-0", "orders-1", "orders-2"}
    by_partition = [event for index in range(3) for event in EVENTS[index::3]]
    assert seen.mean["weights"].tolist() == fit(inside(tmp_path), by_partition).mean["weights"].tolist()


def inside(folder: Path) -> Spec:
    """The same for rows that have their fields at the top."""
    return spec_of(folder, {})


UP = """
name: {name}
data: {{partitions: 2}}
model: {{kind: poisson, field: k}}
inference: {{method: mh, chains: 2, draws: 50, warmup: 20{more}}}
"""


def up(programs: Programs, lines: list[str], code: int = 0, name: str = "counts", more: str = "") -> Path:
    spec, data = programs.folder / f"{name}.yaml", programs.folder / f"{name}.ndjson"
    spec.write_text(UP.format(name=name, more=more))
    data.write_text("".join(f"{line}\n" for line in lines))
    url = f"embedded:{programs.folder / 'bus'}"
    programs.run("up", spec, "--data", data, "--until-idle", "--bus", url, code=code)
    return spec


def test_up_ends_without_any_event_and_there_is_no_posterior(programs: Programs) -> None:
    spec = up(programs, [])
    with connect(f"embedded:{programs.folder / 'bus'}") as connection:
        assert connection.snapshot(load_spec(spec)) is None
        assert connection.why_missing(load_spec(spec)) == "there was no event to draw from"


@pytest.mark.long
def test_up_with_bad_events_only_fails_and_shows_no_posterior(programs: Programs) -> None:
    spec = up(programs, ["x", '{"k": -1}'], code=1)
    url = f"embedded:{programs.folder / 'bus'}"
    said = programs.run("snapshot", spec, "--bus", url, code=1).err
    assert "none of its 2 events is good: see `streaminfer dead-letters" in said


@pytest.mark.long
def test_up_twice_adds_a_segment_with_all_events(programs: Programs) -> None:
    up(programs, [f'{{"k": {i % 7}}}' for i in range(40)])
    spec = up(programs, ["?", *(f'{{"k": {i % 7}}}' for i in range(4))])
    found = document(spec, f"embedded:{programs.folder / 'bus'}")
    assert (found["n_events"], found["n_dead_lettered"], found["sampling"]["segment"]) == (44, 1, 1)


def test_up_with_subposteriors_ends_and_shows_the_parts(programs: Programs) -> None:
    spec = up(programs, [f'{{"k": {i % 7}}}' for i in range(40)], more=", subposteriors: 2")
    with connect(f"embedded:{programs.folder / 'bus'}") as connection:
        whole = connection.snapshot(load_spec(spec))
        parts = [connection.subposterior(load_spec(spec), j) for j in (0, 1)]
    assert whole is not None
    assert (whole.n_events, list(whole.frontier)) == (40, ["counts.events-0", "counts.events-1"])
    assert [(part.n_events, list(part.frontier)) for part in parts if part is not None] == [
        (20, ["counts.events-0"]),
        (20, ["counts.events-1"]),
    ]


def test_up_ends_with_1_if_steps_are_too_large(programs: Programs) -> None:
    spec, data = programs.folder / "spec.yaml", programs.folder / "data.ndjson"
    spec.write_text(json.dumps({
        "name": "large", "data": {"partitions": 1}, "model": MODEL,
        "inference": {"method": "sgld", "draws": 500, "chains": 1, "step": {"size": 1e6}},
    }))  # fmt: skip
    data.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    url = f"embedded:{programs.folder / 'bus'}"
    said = programs.run("up", spec, "--data", data, "--until-idle", "--bus", url, code=1).err
    assert "inference.step: 100 steps in a row left the finite numbers" in said
    assert "make steps smaller" in said
