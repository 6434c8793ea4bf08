"""The evidence of a combined posterior is that of the data in closed form, wherever densities have their constants.

A check leaves 5 standard errors, as the snapshot tells them: a false alarm is below 1e-6, and the seeds are fixed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import integrate

from streaminfer import fit
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.sampling.pooled.shown import Combination
from streaminfer.spec import parse_spec
from tests.spec import own_targets

N = 300
RNG = np.random.default_rng(15)
X = RNG.normal(size=(N, 2))
Y = 0.5 + X @ [1.0, -1.0] + RNG.normal(0, 0.7, N)
ROWS: dict[str, list[dict[str, Any]]] = {
    "poisson": [{"k": int(k)} for k in RNG.poisson(3.0, N)],
    "bernoulli": [{"x": int(x)} for x in RNG.random(N) < 0.3],
    "categorical": [{"c": "abc"[i]} for i in RNG.choice(3, N, p=[0.2, 0.3, 0.5])],
    "gaussian": [{"a": a, "b": b} for a, b in (X @ [[1.0, 0.4], [0.0, 2.0]] + [3.0, -1.0]).tolist()],
    "linear_regression": [{"a": a, "b": b, "y": y} for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True)],
}
MODELS: dict[str, dict[str, Any]] = {
    "poisson": {"field": "k"},
    "bernoulli": {"field": "x"},
    "categorical": {"field": "c", "categories": ["a", "b", "c"]},
    "gaussian": {"fields": ["a", "b"]},
    "linear_regression": {"features": ["a", "b"], "target": "y"},
}
PAIRS = [(kind, "gibbs") for kind in MODELS if kind != "gaussian"] + [("gaussian", "mala"), ("poisson", "mala")]
OTHERS = [("bernoulli", "mala"), ("categorical", "mala"), ("linear_regression", "mala")]


def posterior(model: dict[str, Any], rows: list[dict[str, Any]], **inference: Any) -> PosteriorSnapshot:
    document = {"name": "e", "data": {"partitions": 4}, "model": model, "inference": inference}
    found = fit(parse_spec(document), rows)
    assert isinstance(found, PosteriorSnapshot)
    return found


def combination(found: PosteriorSnapshot) -> Combination:
    assert found.snapshot.payload.sampled is not None
    combined = found.snapshot.payload.sampled.shown.combined
    assert combined is not None
    return combined


def check(kind: str, method: str, subposteriors: int) -> None:
    model, rows = {"kind": kind, **MODELS[kind]}, ROWS[kind]
    exact = posterior(model, rows, method="svb").log_evidence()
    assert exact is not None
    found = posterior(model, rows, method=method, subposteriors=subposteriors, chains=1, draws=600)
    combined = combination(found)
    assert combined.corrected
    assert combined.log_evidence is not None
    assert combined.log_evidence_error is not None
    assert 0 < combined.log_evidence_error < 0.01, "so close that any missing constant is far outside"
    assert abs(combined.log_evidence - exact) < 5 * combined.log_evidence_error + 1e-6
    assert found.log_evidence() == combined.log_evidence
    assert found.to_json()["sampling"]["combined"]["log_evidence"] == combined.log_evidence


@pytest.mark.parametrize(("kind", "method"), PAIRS)
def test_the_evidence_is_that_of_the_closed_form(kind: str, method: str) -> None:
    check(kind, method, subposteriors=2)


@pytest.mark.long
@pytest.mark.parametrize("subposteriors", [2, 4])
@pytest.mark.parametrize(("kind", "method"), PAIRS + OTHERS)
def test_the_evidence_of_other_methods_and_numbers(kind: str, method: str, subposteriors: int) -> None:
    check(kind, method, subposteriors)


class Complete(own_targets.Curved):
    """It says that its densities have all their constants, which they have."""

    is_normalised: ClassVar[bool] = True


TIMES = RNG.exponential(0.5, N)


def waiting(kind: type[own_targets.Densities]) -> Combination:
    model = {"kind": f"{kind.__module__}:{kind.__name__}", "field": "t"}
    rows = [{"t": t} for t in TIMES.tolist()]
    return combination(posterior(model, rows, method="mala", subposteriors=2, chains=1, draws=600))


def test_own_classes_have_an_evidence_if_they_say_so() -> None:
    combined = waiting(Complete)
    target = Complete("t", 0.0)

    def density(theta: float) -> float:
        at = np.array([[theta]])
        total = target.log_likelihood(at, TIMES[:, None]).sum() + target.log_prior(at)[0]
        return float(np.exp(total - peak))

    centre = np.log(N / TIMES.sum())
    peak = float(target.log_likelihood(np.array([[centre]]), TIMES[:, None]).sum())
    exact = peak + np.log(integrate.quad(density, centre - 1.0, centre + 1.0, points=[centre], epsabs=0.0)[0])
    assert combined.log_evidence is not None
    assert combined.log_evidence_error is not None
    assert abs(combined.log_evidence - exact) < 5 * combined.log_evidence_error + 1e-6


def test_other_own_classes_have_none() -> None:
    combined = waiting(own_targets.Curved)
    assert combined.corrected
    assert (combined.log_evidence, combined.log_evidence_error) == (None, None)


def test_mixtures_have_none() -> None:
    """Draws keep to one order of the components, and the evidence is over all of them."""
    values = np.concatenate([RNG.normal(-4.0, 1.0, 100), RNG.normal(4.0, 1.0, 100)])
    model = {"kind": "gaussian_mixture", "fields": ["u"], "components": 2}
    rows = [{"u": u} for u in RNG.permutation(values).tolist()]
    found = posterior(model, rows, method="mala", subposteriors=2, chains=1, draws=600)
    combined = combination(found)
    assert combined.corrected
    assert (combined.log_evidence, combined.log_evidence_error) == (None, None)
    assert found.to_json()["log_evidence"] is None
