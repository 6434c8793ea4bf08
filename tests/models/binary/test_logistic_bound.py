"""Logistic regression by its bound: against quadrature and direct maximisation, and mistakes that are easily made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from streaminfer.models.binary import logistic_bound
from streaminfer.models.binary.logistic_bound import curvature
from streaminfer.models.binary.logistic_normal import log_mean_sigmoid
from streaminfer.models.model import Latent
from streaminfer.models.options import OptionsError
from streaminfer.variational import base as bases
from streaminfer.variational.methods import coordinate_ascent, svb
from tests.models import examples

PRIOR = {"mean": [0.4, -0.3, 0.2], "precision": [0.5, 2.0], "intercept_precision": 0.1}
CLASSIFIER: dict[str, Any] = {"features": ["a", "b"], "target": "y", "prior": PRIOR}


def build(kind: str, **options: Any) -> Any:
    return examples.build(kind, **{"local": "bound", **options})


def draw(n: int, d: int = 2, seed: int = 1) -> np.ndarray:
    """Features that are correlated by 0.9."""
    rng = np.random.default_rng(seed)
    features = 0.3 * rng.normal(size=(n, d)) + 0.9 * rng.normal(size=(n, 1)) + 0.5
    odds = features @ np.resize([1.5, -2.0, 0.5], d) - 0.3
    return np.column_stack([features, rng.random(n) < special.expit(odds)]).astype(np.float64)


def on(model: Any, statistics: np.ndarray) -> bases.Base:
    return bases.Base(1, 1, statistics, model.posterior(statistics))


def converged(model: Any, events: np.ndarray) -> np.ndarray:
    """The statistics at the maximum of the bound, from the prior."""
    if model.covariance == "diagonal":
        return model.absorb(model.posterior(model.empty()), events).statistics
    return coordinate_ascent.ascended(model, bases.prior(model), events, iterations=300, tolerance=1e-12).statistics


def panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of Gauss-Legendre quadrature between edges."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


def through_quadrature(mean: float, deviation: float) -> float:
    """log of the integral of sigmoid times a Gaussian density, around its mode and around 0, the places of their
    bends."""
    mode = optimize.brentq(
        lambda a: special.expit(-a) - (a - mean) / deviation**2, mean - 1, mean + deviation**2 + 1, xtol=1e-9
    )
    edges = np.concatenate([mode + deviation * np.linspace(-13, 13, 53), np.linspace(-60, 60, 61)])
    places, weights = panels(np.unique(edges[np.abs(edges - mode) <= 13 * deviation]))
    log_density = special.log_expit(places) - 0.5 * ((places - mean) / deviation) ** 2
    return float(special.logsumexp(log_density, b=weights) - np.log(deviation * np.sqrt(2 * np.pi)))


@pytest.mark.parametrize("mean", [-1e4, -300.0, -60.0, -3.0, -0.1, 0.0, 0.7, 25.0, 600.0])
@pytest.mark.parametrize("deviation", [1e-3, 0.3, 1.0, 5.0, 30.0, 1e3])
def test_the_mean_of_a_sigmoid_is_exact(mean: float, deviation: float) -> None:
    exact = through_quadrature(mean, deviation)
    ours = float(log_mean_sigmoid(np.array([mean]), np.array([deviation]))[0])
    assert ours == pytest.approx(exact, rel=1e-11, abs=1e-12)


def test_the_mean_of_a_sigmoid_at_its_limits() -> None:
    means = np.array([0.0, 5.0, -5.0, 1e100, -1e100, 0.0, 1e100, -1e100, 3.0])
    deviations = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1e120, 1e120, 1e99, 1e-300])
    found = log_mean_sigmoid(means, deviations)
    wanted = special.log_expit(means)
    wanted[5:8] = special.log_ndtr(means[5:8] / deviations[5:8])
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_the_curvature_is_exact_from_0_to_huge() -> None:
    xi = np.array([0.0, 5e-324, 1e-160, 1e-8, 1e-3, 0.5, 4.0, 40.0, 1e5, 1e150, 1e300])
    exact = [0.25, *(float(mpmath.tanh(mpmath.mpf(x) / 2) / (2 * mpmath.mpf(x))) for x in xi[1:])]
    np.testing.assert_allclose(curvature(xi), exact, rtol=1e-14)


def jaakkola_jordan(a: np.ndarray, xi: np.ndarray) -> np.ndarray:
    return special.log_expit(xi) + 0.5 * (a - xi) - 0.5 * curvature(xi) * (a**2 - xi**2)


def test_the_bound_is_below_and_touches() -> None:
    a, xi = np.linspace(-30, 30, 601)[:, None], np.linspace(0.01, 30, 60)
    assert (jaakkola_jordan(a, xi) <= special.log_expit(a) + 1e-13).all()
    for sign in (-1, 1):
        np.testing.assert_allclose(jaakkola_jordan(sign * xi, xi), special.log_expit(sign * xi), rtol=1e-12)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_the_elbo_is_its_definition_and_below_the_evidence(covariance: str) -> None:
    """One weight: every expectation by quadrature, every xi by search."""
    model = build(
        "logistic_regression", features=["a"], target="y", intercept=False, covariance=covariance, prior={"mean": 0.4}
    )
    events = draw(15, 1)
    q = model.posterior(converged(model, events[:8]))
    moments = q.moments()["weights"]
    normal, prior = stats.norm(moments.mean[0], moments.sd[0]), stats.norm(0.4, 1)
    places, widths = panels(normal.mean() + normal.std() * np.linspace(-9, 9, 37))
    weights = widths * normal.pdf(places)
    total = float(weights @ (prior.logpdf(places) - normal.logpdf(places)))
    for x, y in events:
        a = (2 * y - 1) * x * places
        total -= optimize.minimize_scalar(
            lambda xi, a=a: -float(weights @ jaakkola_jordan(a, np.array(xi))), bounds=(1e-6, 20), method="bounded"
        ).fun
    assert model.elbo(q, events) == pytest.approx(total, abs=1e-7)
    evidence = integrate.quad(
        lambda w: prior.pdf(w) * np.exp(special.log_expit((2 * events[:, 1] - 1) * events[:, 0] * w).sum()), -8, 8
    )[0]
    best = model.elbo(model.posterior(converged(model, events)), events)
    assert model.elbo(q, events) < best < np.log(evidence)
    assert best > np.log(evidence) - 0.2


def assert_maximum(model: Any, events: np.ndarray, statistics: np.ndarray) -> None:
    """No statistic changed by a little gives a larger bound; matrices change in a symmetric way."""
    best, d = model.elbo(model.posterior(statistics), events), len(model.weights_mean)
    for i in range(statistics.size):
        for change in (-1e-3, 1e-3):
            other = statistics.copy()
            other[i] += change * abs(statistics).mean()
            if model.covariance == "full" and i >= d:
                matrix = other[d:].reshape(d, d)
                other[d:] = (0.5 * (matrix + matrix.T)).ravel()
            assert model.elbo(model.posterior(other), events) <= best + 1e-9, i


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("n", [3, 60])
def test_the_converged_posterior_maximises_the_bound(covariance: str, n: int) -> None:
    model = build("logistic_regression", **CLASSIFIER, covariance=covariance)
    events = draw(n)
    assert_maximum(model, events, converged(model, events))


def without_the_two(model: Any, q: Any, rows: np.ndarray) -> np.ndarray:
    return 0.5 * curvature(np.hypot(rows @ q.weights.mean, q.weights.deviations(rows)))


def without_the_variance(model: Any, q: Any, rows: np.ndarray) -> np.ndarray:
    return curvature(np.abs(rows @ q.weights.mean))


@pytest.mark.parametrize("curves", [without_the_two, without_the_variance])
def test_a_wrong_curvature_is_found(curves: Callable[..., np.ndarray]) -> None:
    """The mutants: lambda for 2 lambda, and xi from the mean alone."""
    model = build("logistic_regression", **CLASSIFIER)
    events, statistics = draw(60), model.empty()
    rows, signs = model.design(events)
    for _ in range(200):
        q = model.posterior(statistics)
        matrix = rows.T @ (curves(model, q, rows)[:, None] * rows)
        statistics = np.concatenate([0.5 * signs @ rows, matrix.ravel()])
    with pytest.raises(AssertionError):
        assert_maximum(model, events, statistics)


@pytest.mark.parametrize("n", [4, 9, 80])
def test_rounds_of_the_diagonal_never_let_the_bound_fall(n: int) -> None:
    """Fewer events than weights and more, from the prior; one round more is at least as good."""
    names = [f"x{i}" for i in range(6)]
    model = build("logistic_regression", features=names, target="y", covariance="diagonal", prior={"precision": 0.1})
    events, prior = draw(n, 6), model.posterior(model.empty())
    rounds = [model.posterior(model.ascended(prior, events, None, k).statistics) for k in range(1, 40)]
    bounds = np.array([model.elbo(prior, events), *(model.elbo(q, events) for q in rounds)])
    assert (np.diff(bounds) >= -1e-10 * np.abs(bounds[1:])).all()
    assert bounds[-1] > bounds[1]


@pytest.mark.parametrize("n", [4, 80])
def test_the_diagonal_is_the_best_factorised_gaussian(n: int) -> None:
    """Against a search over all means and precisions."""
    model = build("logistic_regression", features=list("abcd"), target="y", covariance="diagonal")
    events = draw(n, 4)
    q = model.posterior(converged(model, events))
    d = q.weights.mean.size

    def loss(place: np.ndarray) -> float:
        precision = np.exp(place[d:])
        added = np.concatenate([precision * place[:d], precision - model.prior.precision])
        weights = type(q.weights)(model.prior, added, place[:d], precision)
        return -model.elbo(type(q)(model, weights), events)

    found = optimize.minimize(loss, np.zeros(2 * d), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    assert model.elbo(q, events) >= -found.fun - 1e-9
    np.testing.assert_allclose(q.weights.mean, found.x[:d], atol=2e-4)
    np.testing.assert_allclose(q.weights.precision, np.exp(found.x[d:]), rtol=1e-3)


def test_parallel_updates_of_the_diagonal_are_found() -> None:
    """The mutant: each weight against the old means of the others, as plain coordinate ascent over `expected` does."""
    names = [f"x{i}" for i in range(6)]
    model = build("logistic_regression", features=names, target="y", covariance="diagonal", prior={"precision": 0.1})
    events, q, bounds = draw(80, 6), model.posterior(model.empty()), []
    for _ in range(10):
        q = model.posterior(model.expected(q, events))
        bounds.append(model.elbo(q, events))
    assert np.diff(bounds).min() < -1


def test_the_expected_statistics_of_the_diagonal_are_its_increment_at_the_optimum() -> None:
    model = build("logistic_regression", **CLASSIFIER, covariance="diagonal")
    events = draw(60)
    statistics = converged(model, events)
    np.testing.assert_allclose(model.expected(model.posterior(statistics), events), statistics, rtol=1e-5, atol=1e-6)
    assert isinstance(model, Latent)


def test_all_ways_to_solve_for_the_mean_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("logistic_regression", features=list("abcdef"), target="y", covariance="diagonal")
    for n in (4, 40):
        usual = converged(model, draw(n, 6))
        with monkeypatch.context() as patched:
            patched.setattr(logistic_bound, "_PLAIN", 0.0)
            np.testing.assert_allclose(converged(model, draw(n, 6)), usual, rtol=1e-9, atol=1e-10)


Increment = Callable[[Any, bases.Base, np.ndarray], np.ndarray]


def the_difference(model: Any, base: bases.Base, events: np.ndarray) -> np.ndarray:
    return svb.step(model, base, events, iterations=500).statistics


def the_posterior_itself(model: Any, base: bases.Base, events: np.ndarray) -> np.ndarray:
    return base.statistics + the_difference(model, base, events)


def the_prior_again(model: Any, base: bases.Base, events: np.ndarray) -> np.ndarray:
    """Natural parameters of the posterior less the base's statistics alone: the prior stays in."""
    return model.posterior(base.statistics + the_difference(model, base, events)).natural - base.statistics


def assert_increment(increment: Increment, covariance: str) -> None:
    """Two minibatches in turn: the second posterior is that of a model whose prior is the first, to 1e-6."""
    options: dict[str, Any] = {"features": ["a"], "target": "y", "intercept": False, "covariance": covariance}
    first, second = np.split(draw(40, 1), 2)
    model = build("logistic_regression", **options, prior={"mean": 0.3, "precision": 0.5})
    statistics = increment(model, bases.prior(model), first)
    q = model.posterior(statistics)
    prior = {"mean": q.weights.mean.tolist(), "precision": (1 / q.moments()["weights"].sd ** 2).tolist()}
    follower = build("logistic_regression", **options, prior=prior)
    exact = follower.posterior(the_difference(follower, bases.prior(follower), second))
    both = model.posterior(statistics + increment(model, on(model, statistics), second))
    np.testing.assert_allclose(both.natural, exact.natural, rtol=1e-5)
    batch = model.posterior(converged(model, np.vstack([first, second])))
    np.testing.assert_allclose(both.weights.mean, batch.weights.mean, atol=0.1 * batch.moments()["weights"].sd[0])


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_an_increment_is_the_change_from_its_base(covariance: str) -> None:
    assert_increment(the_difference, covariance)
    for mutant in (the_posterior_itself, the_prior_again):
        with pytest.raises(AssertionError):
            assert_increment(mutant, covariance)


def test_a_diagonal_of_thousands_of_weights_stays_small() -> None:
    d, rng = 1000, np.random.default_rng(2)
    model = build("logistic_regression", features=[f"x{i}" for i in range(d)], target="y", covariance="diagonal")
    assert model.size == 2 * (d + 1)
    features = rng.normal(size=(64, d)) / np.sqrt(d)
    events = np.column_stack([features, features[:, 0] > 0]).astype(np.float64)
    q = model.posterior(model.absorb(model.posterior(model.empty()), events).statistics)
    assert np.exp(q.log_predictive(events)).mean() > 0.5


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_constant_features_and_one_class_are_absorbed(covariance: str) -> None:
    """Two features that are always 3 share what they explain, and one class leaves the weights to the prior's pull."""
    options = {"features": ["a", "b"], "target": "y", "covariance": covariance}
    model = build("logistic_regression", **options)
    events = np.column_stack([np.full((50, 2), 3.0), np.ones(50)])
    moments = model.posterior(converged(model, events)).moments()["weights"]
    assert moments.mean[1] == pytest.approx(moments.mean[2], rel=1e-6)
    assert (moments.mean > 0).all()
    assert (moments.sd < [10, 1, 1]).all()


def test_options_that_do_not_fit_together_are_refused() -> None:
    for changed, field in (
        ({"target": "a"}, "target"),
        ({"prior": {"mean": [1, 2]}}, "prior.mean"),
        ({"prior": {"precision": [1, 2, 3]}}, "prior.precision"),
    ):
        with pytest.raises(OptionsError, match=field):
            build("logistic_regression", **{**CLASSIFIER, **changed})
    model = build("logistic_regression", features=["a"], target="y")
    assert model.labels == {"weights": ("intercept", "a")}
    assert model.weights_precision == (0.01, 1.0)
    assert [field.kind for field in model.fields] == ["number", "binary"]
