"""Probit regression: moments of one event against quadrature and 60 digits, many events against plain EP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from streaminfer.models.binary.local_steps import probit as probit_sites
from streaminfer.models.binary.local_steps.probit import Ratios, ratios
from streaminfer.variational import fold, methods
from streaminfer.variational.forgetting import rules
from streaminfer.variational.methods import svb
from streaminfer.variational.outcomes import Outcome
from tests.made import changed, new_increment
from tests.models import examples
from tests.variational.plain import SVB

PRIOR = {"mean": [0.4, -0.3, 0.2], "precision": [0.5, 2.0], "intercept_precision": 0.1}
CLASSIFIER: dict[str, Any] = {"features": ["a", "b"], "target": "y", "prior": PRIOR}
both_forms = pytest.mark.parametrize("covariance", ["full", "diagonal"])


def build(kind: str, **options: Any) -> Any:
    """One event after the other, once if nothing else is said."""
    return examples.build(kind, **{"sweeps": 1, **options})


def draw(n: int, d: int = 2, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    features = 0.6 * rng.normal(size=(n, d)) + 0.6 * rng.normal(size=(n, 1)) + 0.3
    wanted = features @ np.resize([1.5, -2.0, 0.5], d) - 0.3 + rng.normal(size=n) > 0
    return np.column_stack([features, wanted]).astype(np.float64)


def exact_ratios(z: float) -> list[float]:
    """With enough digits for what cancels: phi / Phi by erfc or, if that is too small, by its asymptotic series."""
    with mpmath.workdps(700):
        x = -mpmath.mpf(z)
        if x > 1e3:
            series = (-1) ** np.arange(8) * [float(mpmath.fac2(2 * k - 1)) for k in range(8)]
            v = 1 / sum(term / x ** (2 * k + 1) for k, term in enumerate(series))
        else:
            v = 2 * mpmath.npdf(x) / mpmath.erfc(x / mpmath.sqrt(2))
        return [float(v), float(v * (v - x)), float(1 - v * (v - x)), float(1 - x * (v - x))]


@pytest.mark.parametrize(
    "z", [0.0, 1.0, 8.0, 30.0, 37.0, -1.0, -3.999, -4.0, -4.001, -8.0, -37.0, -900.0, -1e4, -1e8, -1e100]
)
def test_ratios_have_their_digits_far_into_the_tails(z: float) -> None:
    np.testing.assert_allclose(ratios(z), exact_ratios(z), rtol=5e-13)


def test_ratios_are_in_bounds_everywhere() -> None:
    for z in [*np.linspace(-50, 50, 2001), -1e300, -1e160, -1e9, 1e9, 1e160, 1e300]:
        v, w, kept, bend = ratios(float(z))
        assert 0 <= v < np.inf
        assert 0 <= w <= 1
        assert 0 <= kept <= 1
        assert 0 <= bend < np.inf


def by_quadrature(mean: float, variance: float, sign: float) -> tuple[float, float]:
    """Mean and variance of a under N(a; mean, variance) Phi(sign a), relative to the largest value of the product."""
    with mpmath.workdps(40):
        m, v = mpmath.mpf(mean), mpmath.mpf(variance)
        r = mpmath.sqrt(1 + v)
        # Given the noise e ~ N(0, 1) the event says a + e > 0: moments of a truncated Gaussian a + e, then of a.
        z = sign * m / r
        density = mpmath.npdf(z)
        part = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
        return float(m + sign * v / r * density / part), float(
            v - v**2 / r**2 * (density / part) * (density / part + z)
        )


def by_grid(mean: float, variance: float, sign: float) -> tuple[float, float]:
    """The same in float64 by plain quadrature over a."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    edges = mean + np.sqrt(variance) * np.linspace(-14, 14, 57)
    half = 0.5 * np.diff(edges)[:, None]
    a = (edges[:-1, None] + half * (1 + nodes)).ravel()
    log_density = special.log_ndtr(sign * a) - 0.5 * (a - mean) ** 2 / variance
    density = (half * weights).ravel() * np.exp(log_density - log_density.max())
    density /= density.sum()
    centre = density @ a
    return float(centre), float(density @ (a - centre) ** 2)


Absorb = Callable[[Any, Any, np.ndarray], np.ndarray]


def absorb(model: Any, q: Any, events: np.ndarray) -> np.ndarray:
    return model.absorb(q, events).statistics


def assert_moments_of_one_event(change: Absorb, mean: float, precision: float, sign: float, exact: Any) -> None:
    """Three weights: along x both moments are those of the product with Phi, across it nothing changes."""
    names = ["a", "b", "c"]
    prior = {"mean": [mean, 0.5, -0.2], "precision": [precision, 2.0, 0.7]}
    model = build("probit_regression", features=names, target="y", intercept=False, prior=prior)
    q = model.posterior(model.empty())
    x = np.array([1.3, 0.4, -0.6])
    moments = model.posterior(change(model, q, np.array([[*x, sign > 0]], dtype=np.float64))).moments()["weights"]
    cov = np.diag(1 / np.array([precision, 2.0, 0.7]))
    centre, variance = x @ q.weights.mean, x @ cov @ x
    wanted, wanted_variance = exact(centre, variance, sign)
    across = cov @ x
    np.testing.assert_allclose(moments.mean, q.weights.mean + across * (wanted - centre) / variance, rtol=1e-8)
    reduced = cov - np.outer(across, across) * (variance - wanted_variance) / variance**2
    np.testing.assert_allclose(moments.cov, reduced, rtol=1e-8, atol=1e-8 * np.abs(reduced).max())


MEANS = [(0.2, 0.5), (-2.0, 4.0), (3.0, 0.1)]
FAR = [(-30.0, 1.0), (-400.0, 0.3), (50.0, 1.0), (-1e5, 1e-6)]


@pytest.mark.parametrize(("mean", "precision"), MEANS)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_event_has_the_moments_of_quadrature(mean: float, precision: float, sign: float) -> None:
    assert_moments_of_one_event(absorb, mean, precision, sign, by_grid)


@pytest.mark.parametrize(("mean", "precision"), FAR)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_event_has_its_moments_in_the_far_tail(mean: float, precision: float, sign: float) -> None:
    assert_moments_of_one_event(absorb, mean, precision, sign, by_quadrature)


def test_the_closed_form_of_the_tail_is_the_quadrature() -> None:
    for mean, variance, sign in [(0.3, 2.0, 1.0), (-4.0, 0.5, 1.0), (2.0, 9.0, -1.0)]:
        np.testing.assert_allclose(by_quadrature(mean, variance, sign), by_grid(mean, variance, sign), rtol=1e-10)


@pytest.mark.parametrize("wrong", ["v squared", "v"])
def test_a_wrong_w_is_found(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """The mutant: w without its z."""

    def mutant(z: float) -> Ratios:
        right = ratios(z)
        w = min(right.v**2 if wrong == "v squared" else right.v, 0.999)
        return Ratios(right.v, w, 1 - w, (right.v + z * w) / right.v)

    monkeypatch.setattr(probit_sites, "ratios", mutant)
    with pytest.raises(AssertionError):
        assert_moments_of_one_event(absorb, 0.2, 0.5, 1.0, by_grid)


def test_an_increment_that_is_the_posterior_is_found() -> None:
    """The mutants: the prior counted again, and the base's statistics counted again."""

    def the_prior_again(model: Any, q: Any, events: np.ndarray) -> np.ndarray:
        return absorb(model, q, events) + q.natural

    with pytest.raises(AssertionError):
        assert_moments_of_one_event(the_prior_again, 0.2, 0.5, 1.0, by_grid)


@both_forms
def test_one_sweep_is_filtering_event_by_event(covariance: str) -> None:
    model = build("probit_regression", **CLASSIFIER, covariance=covariance)
    events, statistics = draw(40), model.empty()
    for event in events:
        statistics = model.merge(statistics, model.absorb(model.posterior(statistics), event[None]).statistics)
    at_once = model.absorb(model.posterior(model.empty()), events).statistics
    np.testing.assert_allclose(at_once, statistics, rtol=1e-9, atol=1e-11)
    swept = build("probit_regression", **CLASSIFIER, covariance=covariance, sweeps=2)
    other = swept.absorb(swept.posterior(swept.empty()), events).statistics
    assert np.abs(other - at_once).max() > 1e-2
    wrong = model.merge(at_once, at_once - model.absorb(model.posterior(at_once), events).statistics)
    assert np.abs(wrong - statistics).max() > 1e-2


def plain_ep(model: Any, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Expectation propagation with inverses of matrices and quadrature; returns mean and covariance, and checks that
    each product of cavity and Phi has the posterior's moments."""
    rows, signs = model.design(events)
    prior, shift = np.diag(model.prior.precision), model.prior.precision * model.prior.mean
    sites = np.zeros((len(rows), 2))

    def posterior() -> tuple[np.ndarray, np.ndarray]:
        cov = np.linalg.inv(prior + rows.T @ (sites[:, 1:] * rows))
        return cov @ (shift + sites[:, 0] @ rows), cov

    for _ in range(25):
        for i, (x, sign) in enumerate(zip(rows, signs, strict=True)):
            mean, cov = posterior()
            centre, variance = x @ mean, x @ cov @ x
            cavity = 1 / (1 / variance - sites[i, 1])
            cavity_mean = cavity * (centre / variance - sites[i, 0])
            wanted, wanted_variance = by_grid(cavity_mean, cavity, sign)
            sites[i] = wanted / wanted_variance - cavity_mean / cavity, 1 / wanted_variance - 1 / cavity
    return posterior()


def test_sweeps_reach_the_fixed_point_of_expectation_propagation() -> None:
    model = build("probit_regression", **CLASSIFIER, sweeps=40)
    events = draw(8)
    mean, cov = plain_ep(model, events)
    moments = model.posterior(model.absorb(model.posterior(model.empty()), events).statistics).moments()["weights"]
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(moments.cov, cov, rtol=1e-7, atol=1e-9)


@both_forms
def test_many_sweeps_forget_the_order_of_the_events(covariance: str) -> None:
    """On another base than the prior; one sweep does not forget it."""
    events, order = draw(30), np.random.default_rng(3).permutation(30)
    for sweeps in (1, 100):
        model = build("probit_regression", **CLASSIFIER, covariance=covariance, sweeps=sweeps)
        q = model.posterior(model.absorb(model.posterior(model.empty()), draw(10, seed=5)).statistics)
        away = np.abs(model.absorb(q, events).statistics - model.absorb(q, events[order]).statistics).max()
        assert away < 1e-7 if sweeps == 100 else away > 1e-3


def tilted_by_grid(mean: np.ndarray, variance: np.ndarray, x: np.ndarray, sign: float) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of two independent weights under the product with Phi(sign w · x), over a grid of both."""
    nodes, weights = np.polynomial.legendre.leggauss(120)
    places = mean[:, None] + 9 * np.sqrt(variance)[:, None] * nodes
    normal = weights * np.exp(-0.5 * (9 * nodes) ** 2)
    a = sign * (x[0] * places[0][:, None] + x[1] * places[1])
    density = normal[:, None] * normal * special.ndtr(a)
    density /= density.sum()
    margins = density.sum(axis=1), density.sum(axis=0)
    means = np.array([margin @ place for margin, place in zip(margins, places, strict=True)])
    around = [margin @ (p - m) ** 2 for margin, p, m in zip(margins, places, means, strict=True)]
    return means, np.array(around)


def test_a_diagonal_site_has_the_moments_of_each_weight() -> None:
    prior = {"mean": [0.4, -0.3], "precision": [0.5, 2.0]}
    model = build(
        "probit_regression", features=["a", "b"], target="y", intercept=False, covariance="diagonal", prior=prior
    )
    for x, y in (((1.2, -0.7), 1.0), ((0.3, 2.0), 0.0), ((-3.0, 0.1), 1.0)):
        q = model.posterior(model.empty())
        found = model.posterior(model.absorb(q, np.array([[*x, y]])).statistics).moments()["weights"]
        means, variances = tilted_by_grid(q.weights.mean, 1 / q.weights.precision, np.array(x), 2 * y - 1)
        np.testing.assert_allclose(found.mean, means, rtol=1e-8)
        np.testing.assert_allclose(found.sd**2, variances, rtol=1e-8)


def test_diagonal_sweeps_reach_their_fixed_point() -> None:
    """Plain factorised EP by a grid over both weights."""
    options: dict[str, Any] = {"features": ["a", "b"], "target": "y", "intercept": False, "covariance": "diagonal"}
    model = build("probit_regression", **options, sweeps=40)
    events = draw(4)
    rows, signs = model.design(events)
    sites, total = np.zeros((4, 2, 2)), model.posterior(model.empty()).natural.reshape(2, 2)
    for _ in range(25):
        for i, (x, sign) in enumerate(zip(rows, signs, strict=True)):
            linear, precision = total - sites[i]
            means, variances = tilted_by_grid(linear / precision, 1 / precision, x, sign)
            new = np.stack([means, np.ones(2)]) / variances
            sites[i], total = new - [linear, precision], new
    found = model.posterior(model.absorb(model.posterior(model.empty()), events).statistics).natural
    np.testing.assert_allclose(found, total.ravel(), rtol=1e-8)


@pytest.mark.parametrize("sweeps", [1, 5])
def test_full_and_diagonal_are_the_same_for_one_weight(sweeps: int) -> None:
    found = []
    for covariance in ("full", "diagonal"):
        options = {"features": ["a"], "target": "y", "intercept": False, "covariance": covariance, "sweeps": sweeps}
        model = build("probit_regression", **options, prior={"mean": -0.7, "precision": 0.2})
        weights = np.linspace(0.1, 1, 60)
        found.append(model.absorb(model.posterior(model.empty()), draw(60, 1), weights).statistics)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


@both_forms
def test_an_event_of_half_weight_adds_half_its_site(covariance: str) -> None:
    model = build("probit_regression", **CLASSIFIER, covariance=covariance)
    q, event = model.posterior(model.empty()), draw(1)
    np.testing.assert_allclose(
        model.absorb(q, event, np.array([0.5])).statistics, 0.5 * model.absorb(q, event).statistics, rtol=1e-13
    )


@both_forms
def test_the_predictive_is_the_mean_of_phi(covariance: str) -> None:
    model = build("probit_regression", **CLASSIFIER, covariance=covariance)
    q = model.posterior(model.absorb(model.posterior(model.empty()), draw(20)).statistics)
    events = draw(10, seed=4)
    rows, signs = model.design(events)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    a = (rows @ q.weights.mean)[:, None] + q.weights.deviations(rows)[:, None] * nodes
    wanted = np.log(special.ndtr(signs[:, None] * a) @ (weights / weights.sum()))
    np.testing.assert_allclose(q.log_predictive(events), wanted, rtol=1e-9)


@both_forms
def test_forgetting_keeps_the_variance_bounded(covariance: str) -> None:
    """With a half-life of 100 events the sds stay where they settle; without forgetting they fall on and on."""
    model = build("probit_regression", features=["a", "b"], target="y", covariance=covariance)
    ends = {}
    for forget in (None, {"half_life_events": 100.0}):
        rule, deviations = rules.of(forget), []
        snapshot = changed(fold.start(model, "f"), positions={0: 0})
        for k in range(60):
            events = draw(50, seed=k)
            weights = None if rule is None else rule.weights(50, None)
            step = svb.step(model, methods.base_of(model, SVB, snapshot), events, weights)
            increment = new_increment(
                begin=50 * k, end=50 * (k + 1), n_events=50,
                base_version=snapshot.version, score=step.score, statistics=step.statistics,
            )  # fmt: skip
            snapshot, outcome = fold.add(model, snapshot, increment, snapshot.version, rule)
            assert outcome is Outcome.FOLDED
            snapshot = replace(snapshot, version=snapshot.version + 1)
            deviations.append(model.posterior(snapshot.payload.statistics).moments()["weights"].sd)
        ends[forget is None] = deviations[19], deviations[-1]
    settled, last = ends[False]
    assert (last > 0.6 * settled).all()
    assert (last < 1.6 * settled).all()
    earlier, later = ends[True]
    assert (later < 0.7 * earlier).all()
    assert (later < 0.5 * last).all()
