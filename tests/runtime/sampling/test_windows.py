"""Windows: the posterior is that of a fresh spec on the window's events alone, to the last bit of every draw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.spec import Spec
from tests.contracts.test_samplers import FIRST, rows_of
from tests.models.targets.cases import ALL
from tests.runtime.sampling.rig import LOGISTIC, POISSON, SamplerRig, sampled

RNG = np.random.default_rng(3)
EVENTS: list[dict[str, Any]] = [
    {"a": float(a), "b": float(b), "t": int(a + e > b), "k": int(k)}
    for (a, b, e), k in zip(RNG.normal(size=(300, 3)), RNG.poisson(3, 300), strict=True)
]
MODELS = [
    pytest.param(POISSON, "mh", id="poisson"),
    *(pytest.param(LOGISTIC, method, id=f"logistic_regression-{method}") for method in ("sgld", "poisson_mh", "flymc")),
]
HOUR = 3_600_000


def without_window(spec: Spec) -> Spec:
    return replace(spec, inference=replace(spec.inference, forget=None))


def same(rig: SamplerRig, rows: list[dict[str, Any]]) -> None:
    """The newest draws are those that `fit` makes of rows, as a first segment."""
    expected = fit(without_window(rig.spec), rows).to_inference_data()["posterior"]
    found = rig.seen().to_inference_data()["posterior"]
    for name in expected.data_vars:
        assert np.array_equal(found[name].to_numpy(), expected[name].to_numpy())


@pytest.mark.parametrize(("model", "method"), MODELS)
def test_a_window_of_events_is_a_fresh_spec_on_them(model: dict[str, Any], method: str) -> None:
    rig = SamplerRig(sampled(model, method=method, forget={"window_events": 100}))
    rig.send(*EVENTS[:250])
    found = rig.run_to(0, rig.sampler(), rig.master())
    assert (found.n_events, found.n_effective) == (100, 100)
    same(rig, EVENTS[150:250])


@pytest.mark.parametrize("name", FIRST.values(), ids=FIRST)
def test_every_model_has_windows(name: str) -> None:
    example = next(each for each in ALL if each.name == name)
    rig = SamplerRig(sampled({"kind": example.kind, **example.options}, method="gibbs", forget={"window_events": 50}))
    rows = rows_of(rig.spec, example.events(np.random.default_rng(4), 120))
    rig.send(*rows)
    assert rig.run_to(0, rig.sampler(), rig.master()).n_events == 50
    same(rig, rows[70:])


@pytest.mark.parametrize(("model", "method"), MODELS)
def test_a_window_of_seconds_is_a_fresh_spec_on_its_events(model: dict[str, Any], method: str) -> None:
    rig = SamplerRig(sampled(model, method=method, forget={"window_seconds": 3600}))
    for i, event in enumerate(EVENTS):
        rig.send(event, timestamp=10**12 + i * HOUR // 60)
    found = rig.run_to(0, rig.sampler(), rig.master())
    assert (found.n_events, found.n_effective) == (60, 60)
    same(rig, EVENTS[240:])


def test_a_window_with_bad_events_has_the_good_ones_of_its_positions() -> None:
    rig = SamplerRig(sampled(forget={"window_events": 100}))
    rig.send(*EVENTS[:10], b"bad", *EVENTS[10:120], b"worse", *EVENTS[120:140])
    found = rig.run_to(0, rig.sampler(), rig.master())
    assert (found.n_events, found.counts.n_dead_lettered) == (99, 1)
    same(rig, EVENTS[41:140])


def test_bad_events_between_windows_are_dead_letters_once() -> None:
    """Before the first window, between two, in both, and in one: each has one, also after another start."""
    rig = SamplerRig(sampled(forget={"window_events": 20}))
    rig.send(b"before", *EVENTS[:30], b"in both", *EVENTS[30:45])
    services = rig.sampler(), rig.master()
    rig.run_to(0, *services)
    assert [record.value for record in rig.records("dead-letters")] == [b"before", b"in both"]
    rig.send(*EVENTS[45:48], b"soon forgotten", *EVENTS[48:60])
    rig.run_to(1, *services)
    for service in services:
        service.close()
    rig.send(*EVENTS[60:62], b"between", *EVENTS[62:100], b"last", *EVENTS[100:105])
    found = rig.run_to(2, rig.sampler(), rig.master())
    assert (found.n_events, found.counts.n_dead_lettered) == (19, 1)
    letters = [record.value for record in rig.records("dead-letters")]
    assert letters == [b"before", b"in both", b"soon forgotten", b"between", b"last"]


def test_a_window_is_of_each_partition() -> None:
    rig = SamplerRig(sampled(data={"partitions": 2}, forget={"window_events": 50}))
    rig.send(*EVENTS[:100], partition=0)
    rig.send(*EVENTS[100:130], partition=1)
    assert rig.run_to(0, rig.sampler(), rig.master()).n_events == 80
    same(rig, [*EVENTS[50:100], *EVENTS[100:130]])


def test_the_next_window_of_events_is_due_after_half_of_one() -> None:
    rig = SamplerRig(sampled(forget={"window_events": 100}))
    sampler, master = rig.sampler(), rig.master()
    rig.send(*EVENTS[:200])
    rig.run_to(0, sampler, master)
    rig.send(*EVENTS[200:249])
    rig.run(sampler, master, rounds=30)
    assert rig.seen().frontier == {"demo.events-0": 200}
    rig.send(EVENTS[249])
    found = rig.run_to(1, sampler, master)
    assert found.n_events == 100
    assert rig.seen().frontier == {"demo.events-0": 250}


def test_the_next_window_of_seconds_is_due_after_half_of_one_and_a_new_event() -> None:
    rig = SamplerRig(sampled(forget={"window_seconds": 100}))
    sampler, master = rig.sampler(), rig.master()
    rig.send(*EVENTS[:200])
    rig.run_to(0, sampler, master)
    rig.clock.advance(100)
    rig.run(sampler, master)
    assert rig.seen().sampling["segment"] == 0  # type: ignore[index]
    rig.send(*EVENTS[200:])
    found = rig.run_to(1, sampler, master)
    assert found.n_events == 100


def test_one_class_in_the_window_is_enough() -> None:
    rig = SamplerRig(sampled(LOGISTIC, method="sgld", forget={"window_events": 20}))
    rig.send(*(event | {"t": 1} for event in EVENTS[:50]))
    rig.run_to(0, rig.sampler(), rig.master())
    same(rig, [event | {"t": 1} for event in EVENTS[30:50]])
