"""The mixture of Gaussians against the textbook, enumeration of all assignments, and the conjugate Gaussian."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from streaminfer.families import FAMILIES, dirichlet
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.models.mixture import components, elbo
from streaminfer.models.mixture.gaussian_mixture import GaussianMixture
from streaminfer.models.options import OptionsError
from tests.models.examples import build, model_of
from tests.models.mixture import textbook
from tests.models.mixture.examples import MIXTURE_EXAMPLES, SKEWED

every_example = pytest.mark.parametrize("example", MIXTURE_EXAMPLES, ids=[each.name for each in MIXTURE_EXAMPLES])
FIELDS = ["u", "v"]
CORNERS = np.array([[0.0, 0.0], [9.0, 1.0], [-2.0, 12.0]])


def clusters(n: int = 300, centre: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(1)
    return CORNERS[np.arange(n) % 3] + rng.normal(size=(n, 2)) @ [[1.0, 0.4], [0.0, 0.7]] + centre


def climb(model: Any, events: np.ndarray, steps: int) -> Any:
    q = model.posterior(model.empty())
    for _ in range(steps):
        q = model.posterior(model.expected(q, events))
    return q


def assert_close(ours: Any, other: Any, tolerance: float) -> None:
    scale = np.abs(other).max()
    np.testing.assert_allclose(ours, other, rtol=tolerance, atol=tolerance * scale)


def assert_textbook_step(model: Any, q: Any, events: np.ndarray) -> None:
    """A step with rho = 1 on all events is a step of coordinate ascent, every number to 1e-9."""
    ours = textbook.state(model.posterior(model.scale(model.expected(q, events), 1.0)))
    for value, other in zip(ours, textbook.step(model, textbook.state(q), events), strict=True):
        assert_close(value, other, 1e-9)


def overlapping(kind: str = "clouds") -> tuple[Any, Any, np.ndarray]:
    """A model, a posterior one step from the start, and its events: responsibilities are far from 0 and 1."""
    example = next(each for each in MIXTURE_EXAMPLES if each.name == kind)
    model = model_of(example)
    events = example.events(np.random.default_rng(2), 25)
    return model, climb(model, events, 1), events


@pytest.mark.parametrize("kind", ["clouds", "skewed-clouds", "two-humps"])
def test_a_step_is_the_textbooks(kind: str) -> None:
    model, q, events = overlapping(kind)
    assert_textbook_step(model, q, events)
    assert_textbook_step(model, climb(model, events, 4), events)


def test_expected_log_densities_are_those_of_the_family() -> None:
    """E log N(x | mu, S) by the expectations of S^-1 mu, S^-1, mu' S^-1 mu and log|S|."""
    _, q, events = overlapping("skewed-clouds")
    terms = np.hstack([events, (events[:, :, None] * events[:, None, :]).reshape(-1, 4), np.ones((len(events), 2))])
    expected = [niw.expected_statistics(niw.to_natural(q.components.one(k))) for k in range(2)]
    exact = np.stack([terms @ each for each in expected]) - np.log(2 * np.pi)
    np.testing.assert_allclose(components.expected_log_densities(q.components, events), exact, rtol=1e-9)


def without_digamma_of_the_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "psi", np.log)


def without_uncertainty_of_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    right = components.expected_log_densities

    def wrong(of: Any, events: np.ndarray) -> np.ndarray:
        return right(of, events) + 0.5 * of.mean.shape[1] / of.kappa[:, None]

    monkeypatch.setattr(components, "expected_log_densities", wrong)


@pytest.mark.parametrize("mistake", [without_digamma_of_the_precision, without_uncertainty_of_the_mean])
def test_wrong_responsibilities_are_found(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, q, events = overlapping("skewed-clouds")
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        assert_textbook_step(model, q, events)


TINY = [{"scale": 2.0}, SKEWED]


def assert_identity(prior: dict[str, Any]) -> None:
    """ELBO + KL(q || posterior) = log evidence, at the start and on the way up."""
    model = build("gaussian_mixture", fields=FIELDS, components=2, prior=prior)
    events = np.random.default_rng(3).normal(size=(6, 2)) * 2
    found = textbook.assignments(model, events)
    evidence = textbook.log_evidence(found)
    for steps in (0, 1, 2, 5):
        q = climb(model, events, steps)
        elbo, gap = model.elbo(q, events), textbook.divergence(q, events, found)
        assert gap > 1e-3
        assert elbo + gap == pytest.approx(evidence, rel=1e-9)


@pytest.mark.parametrize("prior", TINY)
def test_the_bound_and_the_divergence_make_the_evidence(prior: dict[str, Any]) -> None:
    assert_identity(prior)


def without_the_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elbo, "xlogy", lambda x, y: np.zeros_like(x))


def without_digamma_of_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(concentration: np.ndarray) -> np.ndarray:
        return dirichlet.expected_statistics(concentration) + float(components.psi(concentration.sum()))

    shim = SimpleNamespace(expected_statistics=wrong, kl=dirichlet.kl, Parameters=dirichlet.Parameters)
    monkeypatch.setattr(elbo, "dirichlet", shim)


@pytest.mark.parametrize("mistake", [without_the_entropy, without_digamma_of_the_sum])
def test_a_wrong_bound_is_found(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        assert_identity(TINY[0])


def test_one_component_is_the_conjugate_gaussian() -> None:
    prior = {"mean": [1, -2], "kappa": 0.5, "dof": 4.5, "scale": [2, 0.5]}
    gaussian = build("gaussian", fields=FIELDS, prior=prior)
    one = GaussianMixture(("u", "v"), 1, 0, (1.0,), gaussian.mean, 0.5, 4.5, gaussian.scale_diagonal)
    events = clusters(40)
    q, exact = climb(one, events, 2), gaussian.posterior(gaussian.statistics(events))
    assert one.elbo(q, events) == pytest.approx(exact.log_evidence(), rel=1e-10)
    assert_close(q.natural[2:], exact.natural, 1e-10)
    assert_close(q.log_predictive(events), exact.log_predictive(events), 1e-10)
    for ours, other in (("means", "mean"), ("covs", "cov")):
        assert_close(q.moments()[ours].mean[0], exact.moments()[other].mean, 1e-10)
        assert_close(q.moments()[ours].sd[0], exact.moments()[other].sd, 1e-10)
    assert_close(one.expected(q, events), gaussian.statistics(events), 1e-10)


def test_the_names_of_components_do_not_matter() -> None:
    model = build("gaussian_mixture", fields=FIELDS, components=3)
    events = clusters(60)
    q, order = climb(model, events, 2), [2, 0, 1]
    statistics = model.expected(q, events)
    renamed = model.posterior(statistics.reshape(3, -1)[order].ravel())
    plain = model.posterior(statistics)
    assert_close(renamed.moments()["means"].mean, plain.moments()["means"].mean[order], 1e-14)
    assert_close(
        model.expected(renamed, events).reshape(3, -1), model.expected(plain, events).reshape(3, -1)[order], 1e-12
    )
    assert model.elbo(renamed, events) == pytest.approx(model.elbo(plain, events), rel=1e-12)
    assert_close(renamed.log_predictive(events), plain.log_predictive(events), 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_separated_clusters_are_recovered(seed: int) -> None:
    """Means within 6 posterior standard deviations, a false alarm below 2e-8 for all of them."""
    model = build("gaussian_mixture", fields=FIELDS, components=3, seed=seed)
    moments = climb(model, clusters(), 30).moments()
    order = np.argmin(np.abs(moments["means"].mean[:, None] - CORNERS).sum(axis=2), axis=0)
    assert sorted(order) == [0, 1, 2]
    assert (np.abs(moments["means"].mean[order] - CORNERS) <= 6 * moments["means"].sd[order]).all()
    np.testing.assert_allclose(moments["weights"].mean, 1 / 3, atol=0.01)
    cov = np.array([[1.16, 0.28], [0.28, 0.49]])
    assert (np.abs(moments["covs"].mean - cov) <= 6 * moments["covs"].sd).all()


def test_far_from_zero_nothing_is_lost() -> None:
    """Events around 1e7 with a prior mean there, and events around 0: the same moments and bound."""
    near, far = (
        build("gaussian_mixture", fields=FIELDS, components=3, prior={"mean": centre}) for centre in (0.0, 1e7)
    )
    a, b = climb(near, clusters(), 12), climb(far, clusters(centre=1e7), 12)
    assert_close(b.moments()["means"].mean - 1e7, a.moments()["means"].mean, 1e-8)
    assert_close(b.moments()["covs"].mean, a.moments()["covs"].mean, 1e-8)
    assert_close(b.responsibilities(clusters(centre=1e7)), a.responsibilities(clusters()), 1e-7)
    assert far.elbo(b, clusters(centre=1e7)) == pytest.approx(near.elbo(a, clusters()), rel=1e-8)


def test_responsibilities_keep_their_digits_where_the_prior_mean_is_far() -> None:
    """Scales of condition 1e12 against 50 digits."""
    mp = mpmath.MPContext()
    mp.dps = 50
    model = build("gaussian_mixture", fields=FIELDS, components=2)
    events = np.random.default_rng(4).normal(size=(20, 2)) + np.where(np.arange(20) % 2, 1.0, -1.0)[:, None] + 1e7
    groups = np.arange(20) % 2
    q = model.posterior(np.concatenate([centred_of(events[groups == k]) for k in range(2)]))
    logs = [exact_log_densities(mp, events[groups == k], events) for k in range(2)]
    exact = [1 / (1 + mp.exp(other - one)) for one, other in zip(*logs, strict=True)]
    np.testing.assert_allclose(q.responsibilities(events)[0], np.array(exact, dtype=float), rtol=1e-6)


def centred_of(events: np.ndarray) -> np.ndarray:
    return build("gaussian", fields=FIELDS).statistics(events)


def exact_log_densities(mp: Any, own: np.ndarray, events: np.ndarray) -> list[Any]:
    """E log density of a component that has the events `own`, without terms that all of 10 events share."""
    n, kappa = mp.mpf(len(own)), mp.mpf(0.01)
    rows = [mp.matrix(row.tolist()) for row in own]
    mean = sum(rows[1:], rows[0]) / n
    scale = mp.eye(2) + kappa * n / (kappa + n) * (mean * mean.T)
    for row in rows:
        scale += (row - mean) * (row - mean).T
    inverse, centre = scale**-1, n / (kappa + n) * mean
    around = [mp.matrix(row.tolist()) - centre for row in events]
    return [-mp.log(mp.det(scale)) / 2 - (n + 4) / 2 * (row.T * inverse * row)[0] for row in around]


def test_the_predictive_is_a_mixture_of_scipys_ts() -> None:
    _, q, events = overlapping("skewed-clouds")
    mean, kappa, dof, scale, _ = q.components
    weights = q.concentration / q.concentration.sum()
    ts = [
        stats.multivariate_t(mean[k], scale[k] * (kappa[k] + 1) / (kappa[k] * (dof[k] - 1)), dof[k] - 1)
        for k in range(2)
    ]
    density = sum(w * t.pdf(events) for w, t in zip(weights, ts, strict=True))
    np.testing.assert_allclose(q.log_predictive(events), np.log(density), rtol=1e-10)
    assert q.log_predictive(events[:0]).shape == (0,)
    assert np.isnan(q.log_evidence())


@every_example
def test_draws_have_the_moments(example: Any) -> None:
    """6 standard errors: below 2e-9 for each of about 200 numbers."""
    model, n = model_of(example), 20_000
    q = climb(model, example.events(np.random.default_rng(5), 400), 3)
    draws, moments = q.sample(np.random.default_rng(6), n), q.moments()
    assert list(draws) == list(moments) == ["weights", "means", "covs"]
    for name, (mean, sd, _) in moments.items():
        assert draws[name].shape == (n, *mean.shape)
        assert (np.abs(draws[name].mean(axis=0) - mean) <= 6 * sd / np.sqrt(n)).all()
        squares = (draws[name] - mean) ** 2
        assert (np.abs(squares.mean(axis=0) - sd**2) <= 6 * squares.std(axis=0) / np.sqrt(n)).all()
    around = draws["weights"] - moments["weights"].mean
    products = around[:, :, None] * around[:, None, :]
    error = 6 * products.std(axis=0) / np.sqrt(n)
    assert (np.abs(products.mean(axis=0) - moments["weights"].cov) <= error).all()


@every_example
def test_natural_parameters_are_those_of_the_family(example: Any) -> None:
    q = climb(model_of(example), example.events(np.random.default_rng(7), 50), 2)
    family = FAMILIES[q.family]
    assert family.in_domain(q.natural)
    parameters = family.from_natural(q.natural)
    for ours, other in zip(parameters, (q.concentration, *q.components[:4]), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-9, atol=1e-9)


def test_many_components_have_no_covariances_of_weights() -> None:
    model = build("gaussian_mixture", fields=FIELDS, components=101)
    assert model.posterior(model.empty()).moments()["weights"].cov is None


def test_blocks_of_events_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    model, q, events = overlapping()
    weights = np.linspace(0, 1, len(events))
    whole = model.expected(q, events, weights), model.elbo(q, events), q.log_predictive(events)
    monkeypatch.setattr(components, "_BLOCK", 40)
    assert_close(model.expected(q, events, weights), whole[0], 1e-12)
    assert model.elbo(q, events) == pytest.approx(whole[1], rel=1e-12)
    assert_close(q.log_predictive(events), whole[2], 1e-14)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"prior": {"dof": 1.0}}, "prior.dof"),
        ({"prior": {"mean": [1, 2, 3]}}, "prior.mean"),
        ({"prior": {"scale": [1]}}, "prior.scale"),
        ({"prior": {"concentration": [1, 2]}}, "prior.concentration"),
        ({"fields": [f"x{i}" for i in range(600)]}, "components"),
    ],
)
def test_options_that_do_not_fit_together(options: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionsError) as error:
        build("gaussian_mixture", **{"fields": FIELDS, "components": 3, **options})
    assert error.value.problem.field == field


def test_defaults() -> None:
    model = build("gaussian_mixture", fields=FIELDS, components=4)
    assert (model.seed, model.concentration) == (0, (1.0,) * 4)
    assert (model.mean, model.kappa, model.dof, model.scale_diagonal) == ((0.0,) * 2, 0.01, 4.0, (1.0,) * 2)


@every_example
def test_every_axis_has_labels(example: Any) -> None:
    model = model_of(example)
    for name, moments in model.posterior(model.empty()).moments().items():
        labels: Any = model.labels[name]
        axes = labels if isinstance(labels[0], tuple) else [labels]
        assert [len(axis) for axis in axes] == list(moments.mean.shape)


def test_a_component_that_fades_goes_as_a_whole() -> None:
    """Its count would leave float64 before its scatter: then no statistics of it would be proper."""
    model = build("gaussian_mixture", fields=["u", "v"], components=2)
    statistics = model.expected(model.posterior(model.empty()), np.random.default_rng(1).normal(size=(40, 2)))
    for _ in range(1000):
        statistics = model.scale(statistics, 0.4)
        assert model.proper(statistics[None])[0]
    np.testing.assert_array_equal(statistics, model.empty())
