"""A chain that is cut after any block, and goes on from its packed state, has the draws of one that never was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models.checks import check
from streaminfer.models.targets.reading import reading_of
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import packing, setting_up
from streaminfer.sampling.chains.prepared import Prepared, of_data
from streaminfer.sampling.randomness import Key
from streaminfer.spec import Spec, parse_spec

RNG = np.random.default_rng(8)
EVENTS = [
    {"k": int(k), "x": float(x), "y": int(x > z), "c": "ab"[int(x > 0)], "words": list("abcd"[: 1 + int(k) % 4])}
    for k, x, z in zip(RNG.poisson(3, 60), RNG.normal(size=60), RNG.normal(size=60), strict=True)
]
MODELS: dict[str, dict[str, Any]] = {
    "poisson": {"kind": "poisson", "field": "k"},
    "logistic_regression": {"kind": "logistic_regression", "features": ["x"], "target": "y"},
    "gaussian_mixture": {"kind": "gaussian_mixture", "fields": ["x"], "components": 2},
    "categorical": {"kind": "categorical", "field": "c", "categories": ["a", "b"]},
    "lda": {"kind": "lda", "field": "words", "topics": 2, "vocabulary": list("abcd")},
}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    *((kind, method, {}) for kind in ("poisson", "gaussian_mixture") for method in ("mh", "mala", "gibbs")),
    ("gaussian_mixture", "gibbs", {"scan": "random"}),
    ("logistic_regression", "mh", {"adapt": "always"}),
    *(("logistic_regression", method, {}) for method in ("sgld", "sghmc", "sgnht")),
    *(("gaussian_mixture", method, {"batches": "shuffled"}) for method in ("sgld", "sghmc", "sgnht")),
    *((kind, "sgrld", more) for kind in ("categorical", "lda") for more in ({}, {"batches": "shuffled"})),
    ("lda", "sgrld", {"transition": "euler"}),
    ("logistic_regression", "flymc", {}),
    ("logistic_regression", "flymc", {"proposal": "langevin", "bound": {"tune": "none", "update": "explicit"}}),
    ("logistic_regression", "poisson_mh", {}),
    ("logistic_regression", "poisson_mh", {"control_variates": 0, "adapt": "always"}),
    ("poisson", "subsampled_mh", {"minibatch": 8}),
    ("logistic_regression", "subsampled_mh", {"minibatch": 8, "test": {"rule": "bernstein", "growth": 1}}),
    ("logistic_regression", "sgld", {"correct": {}, "step": {"size": 0.5}}),
    ("gaussian_mixture", "sgld", {"correct": {}}),
]


def spec_of(kind: str, method: str, more: dict[str, Any]) -> Spec:
    minibatch = {"minibatch": 8} if method.startswith("sg") else {}
    said = {"method": method, "draws": 20, "thin": 3, "warmup": 70, **minibatch, **more}
    return parse_spec({"name": "demo", "model": MODELS[kind], "inference": said})


def prepared(spec: Spec, setup: setting_up.Setup | None = None, events: list[dict[str, Any]] = EVENTS) -> Prepared:
    """All anew, as another process would have it; `setup` is what was committed."""
    target, settings, reading = spec.target, spec.sampling, reading_of(spec.target)
    assert settings is not None
    rows = reading.rows(target, check(spec.fields, events).events)
    density = reading.density(target, np.ascontiguousarray(rows), 1.0)
    if setup is None:
        setup = setting_up.all_at_once(density, settings, Key(settings.seed, "steps"))
    else:
        setup = packing.unflatten(setting_up.blank(density, settings), packing.flatten(setup))
    return Prepared(density, settings, Key(settings.seed, "steps"), setup, of_data(density, settings, setup))


@pytest.mark.parametrize(("kind", "method", "more"), CASES)
def test_a_chain_that_is_cut_draws_the_same(kind: str, method: str, more: dict[str, Any]) -> None:
    spec = spec_of(kind, method, more)
    whole = prepared(spec)
    chain, found = chains.begin(whole, None), []
    places = [chain]
    while not chain.done:
        chain, drawn = chains.advance(whole, chain)
        found.append(drawn.values)
        places.append(chain)
    assert sum(map(len, found)) == 20
    for cut in {0, 1, len(places) // 2, len(places) - 2}:
        other = prepared(spec, whole.setup)
        numbers = chains.packed(places[cut])
        left = places[cut]._replace(state=chains.unpacked(other, numbers))
        for expected in found[cut:]:
            left, drawn = chains.advance(other, left)
            np.testing.assert_array_equal(drawn.values, expected)
        assert left.counters == chain.counters
