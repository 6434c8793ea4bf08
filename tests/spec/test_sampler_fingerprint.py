"""The fingerprint of a spec with a sampler: changes with what a draw means, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.spec import meaning
from tests.spec.sampled import spec

SAME: list[dict[str, Any]] = [
    {"chains": 2},
    {"draws": 7},
    {"thin": 7},
    {"warmup": 7},
    {"segment": {"events": 9}},
    {"snapshot_ms": 7},
    {"snapshot_events": 7},
    {"linger_ms": 0},
    {"step": {"bias": 0.05}},
    {"precondition": "mode", "control_variates": True, "start": "mode"},
]
OTHER: list[dict[str, Any]] = [
    {},
    {"seed": 1},
    {"subposteriors": 2},
    {"minibatch": 64},
    {"batches": "shuffled"},
    {"source": "stream"},
    {"source": "stream", "population": 9},
    {"start": "prior"},
    {"step": {"bias": 0.1}},
    {"step": {"size": 0.1}},
    {"step": {"size": 0.1, "power": 0.5}},
    {"precondition": "rms"},
    {"control_variates": False},
    {"friction": 2.0},
    {"noise": 0.5},
    {"forget": {"window_events": 9}},
    {"forget": {"window_seconds": 9}},
]


@pytest.mark.parametrize("inference", SAME, ids=str)
def test_what_does_not_change_it(inference: dict[str, Any]) -> None:
    assert spec("poisson", "sghmc", **inference).fingerprint == spec("poisson", "sghmc").fingerprint


def test_what_changes_it() -> None:
    found = {spec("poisson", "sghmc", **inference).fingerprint for inference in OTHER}
    assert len(found) == len(OTHER)
    methods = ["svb", "mh", "mala", "gibbs", "sgld", "sghmc", "sgnht", "sgrld"]
    assert len({spec("categorical", method).fingerprint for method in methods}) == len(methods)
    given: list[tuple[str, dict[str, Any]]] = [
        ("mh", {"step": {"accept": 0.3}}),
        ("mh", {"adapt": "always"}),
        ("gibbs", {}),
        ("gibbs", {"scan": "random"}),
        ("sgrld", {}),
        ("sgrld", {"transition": "euler", "step": {"size": 25.6}}),
    ]
    assert len({spec("categorical", method, **said).fingerprint for method, said in given}) == len(given)


def test_it_is_over_these_words() -> None:
    assert spec("poisson", "sgld").meaning == {
        "format": "json",
        "model": {"kind": "poisson", "field": "k", "exposure": None, "prior": {"shape": 1.0, "rate": 1.0}},
        "method": "sgld", "seed": 0, "subposteriors": 1, "minibatch": 256, "source": "segment", "batches": "random",
        "start": "mode", "step": {"bias": 0.05}, "precondition": "mode",
        "control_variates": True,
    }  # fmt: skip


def test_a_difference_is_told_by_the_name_of_its_field() -> None:
    """Every part of the meaning has a place in the spec."""
    one, other = spec("poisson", "sghmc"), spec("poisson", "sghmc", seed=3, friction=2.0)
    assert meaning.differences(one.meaning, other.meaning) == [
        "inference.friction is 1.0 in that spec and 2.0 in this one",
        "inference.seed is 0 in that spec and 3 in this one",
    ]
    for method in ("mh", "gibbs", "sghmc", "sgrld"):
        said = spec("categorical", method).document["inference"]
        assert set(spec("categorical", method).meaning) - {"format", "model"} <= set(said)
        named = set(spec("categorical", method).meaning) & set(said)
        assert {meaning.SECTIONS[name] for name in named} == {"inference"}


def test_the_place_of_the_time_counts_where_a_window_reads_it() -> None:
    by_time, by_events = {"forget": {"window_seconds": 60}}, {"forget": {"window_events": 60}}
    timed: dict[str, Any] = {"data": {"timestamp": "at"}}
    assert spec("poisson", "mh", timed, **by_time).fingerprint != spec("poisson", "mh", **by_time).fingerprint
    assert spec("poisson", "mh", timed, **by_events).fingerprint == spec("poisson", "mh", **by_events).fingerprint
