"""Bernoulli, categorical and Poisson models: their predictives and evidences against scipy and quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from streaminfer.models.model import DomainError
from streaminfer.models.options import OptionsError
from tests.models.examples import build


def test_bernoulli_by_hand() -> None:
    model = build("bernoulli", field="y", prior={"alpha": 2.5, "beta": 0.5})
    posterior = model.posterior(model.statistics(np.array([[1.0], [0.0], [1.0]])))
    np.testing.assert_array_equal(posterior.natural, [4.5, 1.5])
    p = posterior.moments()["p"]
    assert p.mean == pytest.approx(0.75)
    assert p.sd == pytest.approx(stats.beta(4.5, 1.5).std())
    assert p.mean.shape == ()
    np.testing.assert_allclose(np.exp(posterior.log_predictive(np.array([[1.0], [0.0]]))), [0.75, 0.25])


def test_the_evidence_of_bernoulli_equals_quadrature() -> None:
    model = build("bernoulli", field="y", prior={"alpha": 2.5, "beta": 1.5})
    evidence = model.posterior(np.array([4.0, 3.0])).log_evidence()
    exact, _ = integrate.quad(lambda p: p**4 * (1 - p) ** 3 * stats.beta(2.5, 1.5).pdf(p), 0, 1)
    assert evidence == pytest.approx(np.log(exact), rel=1e-8)


def test_categorical_by_hand() -> None:
    model = build("categorical", field="c", categories=["x", "y", "z"], prior={"concentration": [1, 2, 0.5]})
    posterior = model.posterior(model.statistics(np.array([[0.0], [2.0], [2.0]])))
    np.testing.assert_array_equal(posterior.natural, [2.0, 2.0, 2.5])
    p, exact = posterior.moments()["p"], stats.dirichlet([2.0, 2.0, 2.5])
    np.testing.assert_allclose(p.mean, exact.mean())
    np.testing.assert_allclose(p.cov, exact.cov())
    events = np.array([[2.0], [0.0]])
    np.testing.assert_allclose(np.exp(posterior.log_predictive(events)), [2.5 / 6.5, 2 / 6.5])


def test_the_evidence_of_categorical_equals_the_dirichlet_multinomial() -> None:
    model = build("categorical", field="c", categories=["x", "y", "z"], prior={"concentration": [1, 2, 0.5]})
    counts = np.array([4, 1, 2])
    orders = stats.multinomial(7, np.ones(3) / 3).logpmf(counts) + 7 * np.log(3)
    exact = stats.dirichlet_multinomial([1, 2, 0.5], 7).logpmf(counts) - orders
    assert model.posterior(counts.astype(np.float64)).log_evidence() == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.parametrize("exposed", [True, False])
def test_the_predictive_of_poisson_is_the_negative_binomial(exposed: bool) -> None:
    options: dict[str, Any] = {"exposure": "e"} if exposed else {}
    model = build("poisson", field="k", prior={"shape": 3.0, "rate": 0.25}, **options)
    events = np.array([[3.0, 0.5], [0.0, 2.0], [12.0, 7.0]])[:, : 1 + exposed]
    posterior = model.posterior(model.statistics(events))
    shape, rate = posterior.natural
    assert (shape, rate) == (18.0, 9.75 if exposed else 3.25)
    exposure = events[:, 1] if exposed else 1.0
    exact = stats.nbinom(shape, rate / (rate + exposure)).logpmf(events[:, 0])
    np.testing.assert_allclose(posterior.log_predictive(events), exact, rtol=1e-10)


def test_the_evidence_of_poisson_equals_quadrature() -> None:
    model = build("poisson", field="k", exposure="e", prior={"shape": 3.0, "rate": 0.25})
    events = np.array([[3.0, 0.5], [0.0, 2.0], [12.0, 7.0]])

    def joint(rate: float) -> float:
        return float(stats.poisson(rate * events[:, 1]).pmf(events[:, 0]).prod() * stats.gamma(3, scale=4).pdf(rate))

    exact, _ = integrate.quad(joint, 0, 20, epsabs=1e-16, epsrel=1e-10)
    assert model.posterior(model.statistics(events)).log_evidence() == pytest.approx(np.log(exact), rel=1e-8)


@pytest.mark.parametrize(
    ("kind", "options", "field"),
    [
        ("poisson", {"field": "k", "exposure": "k"}, "exposure"),
        (
            "categorical",
            {"field": "c", "categories": ["a", "b"], "prior": {"concentration": [1]}},
            "prior.concentration",
        ),
    ],
)
def test_options_that_do_not_fit_together(kind: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionsError) as error:
        build(kind, **options)
    assert error.value.problem.field == field


@pytest.mark.parametrize(
    ("kind", "options", "statistics"),
    [
        ("bernoulli", {"field": "y"}, [3.0, -1e-9]),
        ("categorical", {"field": "c", "categories": ["a", "b"]}, [3.0, -0.5]),
        ("poisson", {"field": "k"}, [-1.0, 2.0, 0.0]),
        ("poisson", {"field": "k"}, [1.0, -2.0, 0.0]),
    ],
)
def test_negative_totals_are_out_of_the_domain(kind: str, options: dict[str, Any], statistics: list[float]) -> None:
    with pytest.raises(DomainError, match="which no events give"):
        build(kind, **options).posterior(np.array(statistics))


def test_kinds_of_fields() -> None:
    assert build("bernoulli", field="y").fields[0].kind == "binary"
    assert build("categorical", field="c", categories=["b", "a"]).fields[0].categories == ("b", "a")
    assert [f.kind for f in build("poisson", field="k", exposure="e").fields] == ["count", "positive"]
    assert [f.kind for f in build("poisson", field="k").fields] == ["count"]
