"""Pooled priors of keys that say little: one event each, the same value always, all keys alike, one key alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import connect, load_spec
from tests.faults.programs import Programs

MODELS: dict[str, tuple[dict[str, Any], Callable[[float], dict[str, Any]]]] = {
    "bernoulli": ({"kind": "bernoulli", "field": "y"}, lambda x: {"y": int(x > 0)}),
    "categorical": (
        {"kind": "categorical", "field": "c", "categories": ["a", "b", "c"]},
        lambda x: {"c": "abc"[int(abs(x)) % 3]},
    ),
    "poisson": ({"kind": "poisson", "field": "k"}, lambda x: {"k": int(abs(x))}),
    "gaussian": ({"kind": "gaussian", "fields": ["u", "v"]}, lambda x: {"u": x, "v": 1e6}),
    "linear_regression": (
        {"kind": "linear_regression", "features": ["a"], "target": "t"},
        lambda x: {"a": 1.0, "t": x},
    ),
}
"""Each model with the event that a number is; some fields have the same value in all events."""
KEYS: dict[str, list[tuple[str, float]]] = {
    "one event each": [(f"k{i}", float(i % 5)) for i in range(50)],
    "one event in all": [("k", 3.0)],
    "one key": [("k", float(i % 3)) for i in range(500)],
    "nothing but zeros": [(f"k{i % 20}", 0.0) for i in range(500)],
    "all equal": [(f"k{i % 20}", 7.0) for i in range(500)],
    "each key constant": [(f"k{i % 20}", float(i % 20)) for i in range(500)],
    "one key of very many events": [("big" if i % 100 else f"k{i}", float(i % 4)) for i in range(3000)],
    "huge and tiny": [(f"k{i % 20}", (1e9 if i % 20 == 3 else 1e-9) * (1 + i % 2)) for i in range(500)],
}


def numbers(document: Any) -> Iterator[float]:
    """All numbers of a document; a moment that does not exist is null."""
    if isinstance(document, dict | list):
        for each in document.values() if isinstance(document, dict) else document:
            yield from numbers(each)
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield float(document)


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("keys", KEYS)
def test_every_key_has_a_posterior(programs: Programs, model: str, keys: str) -> None:
    section, event = MODELS[model]
    data, spec = programs.folder / "data.ndjson", programs.folder / "spec.yaml"
    data.write_text("".join(json.dumps({"id": key, **event(x)}) + "\n" for key, x in KEYS[keys]))
    text = {"name": "pooled", "key": {"field": "id", "default": "pooled"}, "model": section}
    spec.write_text(json.dumps({**text, "data": {"partitions": 2}, "inference": {"minibatch": 20}}))
    url = f"embedded:{programs.folder / 'bus'}"
    said = programs.run("up", spec, "--workers", 2, "--data", data, "--until-idle", "--bus", url).err
    assert "Traceback" not in said
    assert "ended with exit code" not in said
    counts = Counter(key for key, _ in KEYS[keys])
    check(spec, url, counts)
    check_strength(spec, url, counts)


def check(spec: Path, url: str, counts: Counter[str]) -> None:
    """Every key, and one that was never seen, has a posterior of finite numbers whose spreads are not 0."""
    with connect(url) as connection:
        loaded = load_spec(spec)
        assert {each.key: each.n_events for each in connection.keys(loaded, limit=10_000)} == counts
        for key in [*counts, "never seen"]:
            found = connection.snapshot(loaded, key)
            assert found is not None, key
            document = found.to_json()
            assert (document["n_events"], document["n_rejected"], document["n_lost"]) == (counts[key], 0, 0)
            assert np.isfinite(document["natural"]).all()
            for moments in document["parameters"].values():
                assert np.isfinite(list(numbers(moments))).all(), (key, moments)
                spreads = list(numbers(moments["sd"]))
                assert min(spreads, default=1.0) > 0, (key, moments)


def check_strength(spec: Path, url: str, counts: Counter[str]) -> None:
    """A key that was never seen has a prior that is not surer than all events, with means no larger than the data."""
    with connect(url) as connection:
        found = connection.snapshot(load_spec(spec), "never seen")
    assert found is not None
    prior = found.posterior.model.prior_options
    strengths = [prior[name] for name in ("alpha", "beta", "kappa", "dof", "intercept_precision") if name in prior]
    strengths += [*prior.get("concentration", []), *prior.get("precision", [])]
    if "shape" in prior and "precision" in prior:
        strengths.append(2 * prior["shape"])
    elif "shape" in prior:
        strengths.append(prior["rate"])
    assert max(strengths) <= 1.001 * max(4, sum(counts.values())), prior
    assert np.abs(prior.get("mean", 0.0)).max() <= 1e10, prior
