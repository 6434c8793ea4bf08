"""Chains that decide on subsets, as specs ask for them: their accounts, their errors, and what ends them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streaminfer import fit, parse_spec
from streaminfer.cli import sampling_lines
from streaminfer.models.targets.density import Density
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.chains.prepared import Prepared, of_data
from streaminfer.sampling.chains.table import kernel_for
from streaminfer.sampling.randomness import Key
from streaminfer.spec import Spec
from tests.sampling.subsets.test_poisson_mh import TooSteep

RNG = np.random.default_rng(2)
ROWS = [{"x": float(x), "y": int(x > z)} for x, z in zip(RNG.normal(size=300), RNG.normal(size=300), strict=True)]
MODEL = {"kind": "logistic_regression", "features": ["x"], "target": "y"}


def spec(**inference: Any) -> Spec:
    return parse_spec({"name": "subsets", "model": MODEL, "inference": {"chains": 2, "draws": 40, **inference}})


def fitted(**inference: Any) -> Any:
    return fit(spec(**inference), ROWS)


def test_work_is_counted() -> None:
    """3 likelihoods of each event that is read, but 1 or 2 if all decide."""
    said = fitted(method="poisson_mh").sampling
    counted = said["counters"]
    assert counted["n_proposed"] == 2 * (40 + 40) * 2
    assert 0 < counted["n_read"] < counted["n_likelihood"] <= 3 * counted["n_read"]
    assert said["fraction"] == counted["n_read"] / (counted["n_proposed"] * 300) < 0.2
    assert said["acceptance_error"] is None
    assert counted["n_setup"] > 0
    plain = fitted(method="mh").sampling
    assert plain["fraction"] == 1.0
    assert plain["counters"]["n_read"] == plain["counters"]["n_likelihood"] == 300 * plain["counters"]["n_proposed"]
    assert fitted(method="sgld", minibatch=30).sampling["fraction"] == pytest.approx(0.1)


@pytest.mark.parametrize("proposal", ["random_walk", "langevin"])
def test_bright_events_are_counted(proposal: str) -> None:
    """A likelihood of each event that a step reads, also if it is read for its gradient. The set-up is apart."""
    found = fitted(method="flymc", proposal=proposal)
    said, counted = found.sampling, found.sampling["counters"]
    assert 0 < counted["n_read"] == counted["n_likelihood"]
    assert (counted["n_gradient"] > 0) == (proposal == "langevin")
    assert said["fraction"] == counted["n_read"] / (counted["n_proposed"] * 300) < 0.3
    assert said["acceptance_error"] is None
    assert counted["n_setup"] > 300
    assert any(line.startswith("a step reads ") for line in sampling_lines.lines_of(found))
    untuned = fitted(method="flymc", proposal=proposal, bound={"tune": "none"}).sampling
    assert said["fraction"] < untuned["fraction"] < 1


@pytest.mark.parametrize(("test", "least", "most"), [
    ({"rule": "bernstein", "error": 0.05}, 0.05, 0.05),
    ({"rule": "t", "error": 0.05, "growth": 1}, 0.05, 0.2),
])  # fmt: skip
def test_snapshots_say_how_wrong_a_decision_may_be(test: dict[str, Any], least: float, most: float) -> None:
    found = fitted(method="subsampled_mh", minibatch=50, test=test)
    assert least <= found.sampling["acceptance_error"] <= most
    lines = list(sampling_lines.lines_of(found))
    assert any(line.startswith("a decision reads ") and line.endswith("% of all") for line in lines)
    wrong = [line for line in lines if line.startswith("a probability of being accepted is at most 0.")]
    assert len(wrong) == 1
    assert wrong[0].endswith("if means of minibatches are normal") == (test["rule"] == "t")


def test_fewer_events_than_a_first_batch_are_all_read() -> None:
    said = fitted(method="subsampled_mh", minibatch=1000).sampling
    assert said["fraction"] == 1.0
    assert said["acceptance_error"] == 0.0


def test_exactness() -> None:
    target = spec(method="poisson_mh").target
    exact, others = ("poisson_mh", "flymc"), ("subsampled_mh", "sgld")
    found = {method: kernel_for(method, target).exactness for method in (*exact, *others)}
    assert found == dict.fromkeys(exact, "sampled") | dict.fromkeys(others, "approximate")


def test_corrected_steps_are_proposals() -> None:
    found = fitted(method="sgld", correct={"rule": "t"}, step={"size": 1.0}, minibatch=50, thin=10)
    said, lines = found.sampling, list(sampling_lines.lines_of(found))
    assert 0.5 < said["acceptance"] < 1
    assert 0 < said["acceptance_error"] < 0.1
    assert any(line.startswith("a step reads ") for line in lines)
    assert any(line.startswith("a probability of being accepted is at most 0.") for line in lines)
    assert said["counters"]["n_read"] > 50 * said["counters"]["n_proposed"]
    assert said["counters"]["n_gradient"] == 2 * 50 * said["counters"]["n_proposed"]
    assert fitted(method="sgld", minibatch=50).sampling["acceptance"] is None


@pytest.mark.parametrize("method", ["poisson_mh", "subsampled_mh"])
def test_a_broken_bound_ends_the_chain(method: str) -> None:
    made = spec(method=method, **({"minibatch": 20} if method == "subsampled_mh" else {}))
    settings, target = made.sampling, TooSteep(made.target.model)
    assert settings is not None
    rows = target.rows(np.array([[row["x"], row["y"]] for row in ROWS]))
    density = Density(target, np.ascontiguousarray(rows))
    key = Key(0, "steps")
    setup = setting_up.all_at_once(density, settings, key)
    prepared = Prepared(density, replace(settings, draws=400), key, setup, of_data(density, settings, setup))
    with pytest.raises(chains.Diverged, match=r"^derivative_bounds: the remainder of event \d+ of the segment"):
        run(prepared)


def run(prepared: Prepared) -> None:
    chain = chains.begin(prepared, None)
    while not chain.done:
        chain, _ = chains.advance(prepared, chain)
