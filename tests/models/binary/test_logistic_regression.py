"""Logistic regression by expectation propagation, and the same for probit: one event, many, and bad input."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

from streaminfer.models.binary.local_steps import diagonal, mode
from streaminfer.models.binary.logistic_bound import BoundLogisticRegression
from streaminfer.models.model import Filter, Latent
from streaminfer.models.options import OptionsError
from streaminfer.spec import parse_spec
from streaminfer.variational import base as bases
from streaminfer.variational.methods import svb
from tests.models.binary.local_steps.tilted import LINKS, expectations
from tests.models.examples import build

PRIOR = {"mean": [0.4, -0.3, 0.2], "precision": [0.5, 2.0], "intercept_precision": 0.1}
CLASSIFIER: dict[str, Any] = {"features": ["a", "b"], "target": "y", "prior": PRIOR}
KINDS = {"logistic_regression": "logistic", "probit_regression": "probit"}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_form = pytest.mark.parametrize("covariance", ["full", "diagonal"])


def draw(n: int, d: int = 2, seed: int = 1) -> np.ndarray:
    """Features that are correlated by 0.9."""
    rng = np.random.default_rng(seed)
    features = 0.3 * rng.normal(size=(n, d)) + 0.9 * rng.normal(size=(n, 1)) + 0.5
    odds = features @ np.resize([1.5, -2.0, 0.5], d) - 0.3
    return np.column_stack([features, rng.random(n) < special.expit(odds)]).astype(np.float64)


def learned(model: Any, events: np.ndarray, weights: np.ndarray | None = None) -> Any:
    """The posterior of one minibatch from the prior."""
    return model.posterior(model.absorb(model.posterior(model.empty()), events, weights).statistics)


@every_kind
@pytest.mark.parametrize("label", [0.0, 1.0])
@pytest.mark.parametrize("size", [0.01, 0.3, 1.0, 20.0, 1000.0])
def test_one_event_has_the_moments_of_the_product(kind: str, label: float, size: float) -> None:
    """Along x both moments are those of the product with f, across it nothing changes: to 1e-8."""
    model = build(kind, **CLASSIFIER)
    event = np.array([[1.3 * size, -0.6 * size, label]])
    rows, signs = model.design(event)
    sign, x = signs[0], rows[0]
    cov = np.diag(1 / model.prior.precision)
    centre, variance = sign * (x @ model.prior.mean), x @ cov @ x
    exact = expectations(LINKS[KINDS[kind]], centre, np.sqrt(variance), 1.0)
    found = learned(model, event).moments()["weights"]
    across = sign * (cov @ x)
    wanted = model.prior.mean + across * (exact.mean - centre) / variance
    np.testing.assert_allclose(found.mean, wanted, rtol=1e-8, atol=1e-8)
    reduced = cov - np.outer(across, across) * (variance - exact.variance) / variance**2
    np.testing.assert_allclose(found.cov, reduced, rtol=1e-7, atol=1e-8 * np.abs(cov).max())


@every_kind
def test_laplace_has_the_mode_and_the_curvature_there(kind: str) -> None:
    model, events = build(kind, **CLASSIFIER, local="laplace"), draw(50)
    rows, signs = model.design(events)
    link = LINKS[KINDS[kind]]

    def loss(w: np.ndarray) -> float:
        around = model.prior.precision @ (w - model.prior.mean) ** 2
        return float(0.5 * around - link.log(signs * (rows @ w)).sum())

    searched = optimize.minimize(loss, model.prior.mean, method="BFGS", options={"gtol": 1e-7}).x
    found = learned(model, events)
    np.testing.assert_allclose(found.weights.mean, searched, atol=2e-5)
    bend = link.bend(signs * (rows @ found.weights.mean))
    precision = np.diag(model.prior.precision) + rows.T @ (bend[:, None] * rows)
    np.testing.assert_allclose(np.linalg.inv(found.moments()["weights"].cov), precision, rtol=1e-6)


@every_kind
@every_form
def test_the_expected_statistics_are_the_natural_gradient(kind: str, covariance: str) -> None:
    """A step of size rho by them changes the elbo by rho <g, step>, g by finite differences along the step."""
    model, events = build(kind, **CLASSIFIER, covariance=covariance), draw(40)
    start = model.absorb(model.posterior(model.empty()), draw(25, seed=3)).statistics
    q = model.posterior(start)
    target = model.expected(q, events)
    # By expectation parameters mu the gradient of the elbo is eta_0 + expected - eta; so it is 0 at the optimum ...
    rng = np.random.default_rng(5)
    d = len(model.weights_mean)
    for _ in range(6):
        change = rng.normal(size=start.size)
        if covariance == "full":
            matrix = change[d:].reshape(d, d)
            change[d:] = (0.5 * (matrix + matrix.T)).ravel()
        h = 1e-5
        after, before = (model.posterior(start + sign * h * change) for sign in (1, -1))
        slope = (model.elbo(after, events) - model.elbo(before, events)) / (2 * h)
        # ... and along a change of eta it is <eta_0 + expected - eta, d mu>, mu = (E w, -E w w' / 2).
        moved = (expectation(after, covariance) - expectation(before, covariance)) / (2 * h)
        assert slope == pytest.approx(float((target - start) @ moved), rel=1e-5, abs=1e-6)


def expectation(q: Any, covariance: str) -> np.ndarray:
    moments = q.moments()["weights"]
    if covariance == "full":
        second = moments.cov + np.outer(moments.mean, moments.mean)
        return np.concatenate([moments.mean, -0.5 * second.ravel()])
    return np.concatenate([moments.mean, -0.5 * (moments.sd**2 + moments.mean**2)])


@every_kind
def test_the_elbo_is_below_the_evidence(kind: str) -> None:
    model = build(kind, features=["a"], target="y", intercept=False, prior={"mean": 0.4})
    events = draw(15, 1)
    places = np.linspace(-9, 9, 20_001)
    prior = -0.5 * (places - 0.4) ** 2 - 0.5 * np.log(2 * np.pi)
    levels = LINKS[KINDS[kind]].log((2 * events[:, 1] - 1)[:, None] * events[:, :1] * places).sum(axis=0)
    evidence = special.logsumexp(prior + levels) + np.log(places[1] - places[0])
    best = model.elbo(learned(model, events), events)
    assert evidence - 0.02 < best < evidence


@every_kind
@pytest.mark.parametrize("n", [4, 80])
def test_the_diagonal_is_the_best_factorised_gaussian(kind: str, n: int) -> None:
    """Against a search over all means and precisions."""
    model = build(kind, features=list("abcd"), target="y", covariance="diagonal")
    events = draw(n, 4)
    q = learned(model, events)
    d = q.weights.mean.size

    def loss(place: np.ndarray) -> float:
        precision = np.exp(place[d:])
        added = np.concatenate([precision * place[:d], precision - model.prior.precision])
        return -model.elbo(type(q)(model, type(q.weights)(model.prior, added, place[:d], precision)), events)

    found = optimize.minimize(loss, np.zeros(2 * d), method="BFGS", options={"gtol": 1e-6, "maxiter": 2000})
    assert model.elbo(q, events) >= -found.fun - 1e-7
    np.testing.assert_allclose(q.weights.mean, found.x[:d], atol=1e-3)
    np.testing.assert_allclose(q.weights.precision, np.exp(found.x[d:]), rtol=3e-3)


@every_kind
@every_form
def test_a_weight_is_how_often_an_event_counts(kind: str, covariance: str) -> None:
    """An event of weight 2 is that event twice, to within what a joint site of both has over two; weight 0 is no
    event."""
    model, events = build(kind, **CLASSIFIER, covariance=covariance), draw(60)
    weights = np.ones(60)
    weights[:20], weights[20:30] = 2.0, 0.0
    counted = learned(model, events, weights).moments()["weights"]
    repeated = learned(model, np.vstack([events[:20], events[:20], events[30:]])).moments()["weights"]
    np.testing.assert_allclose(counted.mean, repeated.mean, atol=0.01 * repeated.sd.min())
    np.testing.assert_allclose(counted.sd, repeated.sd, rtol=0.01)
    none = model.absorb(model.posterior(model.empty()), events, np.zeros(60)).statistics
    np.testing.assert_allclose(none, 0, atol=1e-12)


BAD = {
    "one class": np.column_stack([draw(50)[:, :2], np.ones(50)]),
    "separable": np.column_stack([draw(50)[:, :2], draw(50)[:, 0] > 0.5]).astype(np.float64),
    "equal features": np.column_stack([np.full((50, 2), 3.0), draw(50)[:, 2]]),
    "twins": draw(50)[:, [0, 0, 2]],
    "zeros": np.column_stack([np.zeros((50, 2)), draw(50)[:, 2]]),
    "huge": draw(50) * [1e100, 1e100, 1],
    "one huge": np.vstack([draw(49), [[1e100, -1e100, 1]]]),
    "mixed": draw(50) * [1e-100, 1e100, 1],
    "tiny": draw(50) * [1e-100, 1e-300, 1],
}


@every_kind
@every_form
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_absorbed_without_a_warning(kind: str, covariance: str, name: str) -> None:
    """Twice, the second time from the posterior of the first, with a score; nothing is infinite or NaN."""
    model = build(kind, features=["a", "b"], target="y", covariance=covariance)
    base = bases.prior(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            step = svb.step(model, base, BAD[name])
            assert np.isfinite(step.statistics).all()
            assert np.isfinite(step.score)
            statistics = base.statistics + step.statistics
            base = bases.Base(1, 50, statistics, model.posterior(statistics))
            moments: Any = base.posterior.moments()["weights"]
            assert np.isfinite(moments.mean).all()
            assert (moments.sd > 0).all()
            if name not in {"huge", "one huge", "mixed"}:
                assert step.n_unconverged == 0


@every_kind
def test_twins_share_their_weight_and_one_class_stays_finite(kind: str) -> None:
    model = build(kind, features=["a", "b"], target="y")
    twins = learned(model, BAD["twins"]).moments()["weights"]
    assert twins.mean[1] == pytest.approx(twins.mean[2], abs=1e-9)
    one_class = learned(model, BAD["one class"]).moments()["weights"]
    assert one_class.mean[0] > 0
    assert (np.abs(one_class.mean) < 20).all()


@every_kind
def test_a_feature_times_a_million_moves_no_other_weight(kind: str) -> None:
    """Its own prior is nearly flat then, and before it had a say: the others move by less than 0.05 deviations."""
    d, n = 4, 2048
    model = build(kind, features=list("abcd"), target="y", prior={"precision": 0.01})
    events = draw(n, d)
    large = events * [1e6, 1, 1, 1, 1]
    found = []
    for each in (events, large):
        statistics = model.empty()
        for batch in np.split(each, n // 256):
            statistics = statistics + model.absorb(model.posterior(statistics), batch).statistics
        found.append(model.posterior(statistics).moments()["weights"])
    others = [0, 2, 3, 4]
    assert (np.abs(found[1].mean - found[0].mean)[others] < 0.05 * found[0].sd[others]).all()
    assert found[1].mean[1] * 1e6 == pytest.approx(found[0].mean[1], abs=0.1 * found[0].sd[1])


@every_kind
def test_what_has_not_converged_is_told(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, events = build(kind, **CLASSIFIER), draw(60)
    base = bases.prior(model)
    assert svb.step(model, base, events).n_unconverged == 0
    monkeypatch.setattr(mode, "STEPS", 1)
    assert svb.step(model, base, events).n_unconverged == 60


def test_too_few_rounds_of_the_diagonal_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("logistic_regression", **CLASSIFIER, covariance="diagonal")
    monkeypatch.setattr(diagonal, "ROUNDS", 1)
    assert not model.absorb(model.posterior(model.empty()), draw(60)).converged


def test_an_increment_is_the_change_from_its_base() -> None:
    """The second of two minibatches is learned as by a model whose prior is the posterior of the first."""
    options: dict[str, Any] = {"features": ["a"], "target": "y", "intercept": False}
    first, second = np.split(draw(40, 1), 2)
    model = build("logistic_regression", **options, prior={"mean": 0.3, "precision": 0.5})
    statistics = model.absorb(model.posterior(model.empty()), first).statistics
    q = model.posterior(statistics)
    both = model.posterior(statistics + model.absorb(q, second).statistics)
    prior = {"mean": q.weights.mean.tolist(), "precision": (1 / q.moments()["weights"].sd ** 2).tolist()}
    follower = build("logistic_regression", **options, prior=prior)
    np.testing.assert_allclose(both.natural, learned(follower, second).natural, rtol=1e-8)


@every_kind
def test_streaming_starts_serially(kind: str) -> None:
    """With 3 weights, 60 events before a base may be older than the posterior."""
    model = build(kind, **CLASSIFIER)
    assert model.serial_events == 60
    assert bases.side_by_side(model, 60) == 0
    assert bases.side_by_side(model, 100) == 40
    assert bases.too_old(model, 128, 64)
    assert not bases.too_old(model, 384, 256)


@every_kind
def test_local_steps_that_do_not_fit_are_refused(kind: str) -> None:
    own = "bound" if kind == "logistic_regression" else "sequential"
    for covariance, local in (("full", "gaussian"), ("diagonal", "ep"), ("diagonal", "laplace")):
        with pytest.raises(OptionsError, match=f"with a {covariance} covariance"):
            build(kind, **CLASSIFIER, covariance=covariance, local=local)
    for covariance in ("full", "diagonal"):
        assert build(kind, **CLASSIFIER, covariance=covariance, local=own).local == own


def test_the_local_step_follows_from_the_covariance() -> None:
    assert build("logistic_regression", **CLASSIFIER).local == "ep"
    assert build("logistic_regression", **CLASSIFIER, covariance="diagonal").local == "gaussian"
    assert build("probit_regression", **CLASSIFIER).local == "ep"
    assert build("probit_regression", **CLASSIFIER, sweeps=3).local == "sequential"
    assert build("probit_regression", **CLASSIFIER, local="sequential").sweeps == 5
    with pytest.raises(OptionsError, match="only with sequential"):
        build("probit_regression", **CLASSIFIER, local="ep", sweeps=3)
    model = build("logistic_regression", **CLASSIFIER)
    assert isinstance(model, Filter)
    assert isinstance(model, Latent)
    assert model.exactness == "approximate"
    assert isinstance(build("logistic_regression", **CLASSIFIER, local="bound"), BoundLogisticRegression)
    written = parse_spec({"name": "x", "model": {"kind": "logistic_regression", **CLASSIFIER}}).document
    assert written["model"]["local"] == "ep"
