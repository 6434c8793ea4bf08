"""What every target must satisfy: its gradients, curvature, bounds and draws are those of its densities.

Statistical checks leave 6 standard errors: each false alarm is below 2e-9, all of them below 1e-6 a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models import MODELS
from streaminfer.models.model import is_conjugate
from streaminfer.models.targets import TARGETS, remainders
from streaminfer.models.targets.checks import differences, gradient_fault
from streaminfer.models.targets.density import Density, scores
from streaminfer.models.targets.target import Drawn
from streaminfer.variational.base import Base
from streaminfer.variational.methods import svb
from tests.models.examples import EXAMPLES, Example, model_of
from tests.models.targets.cases import ALL, Case, case, every_target, having

CONJUGATE = [example for example in EXAMPLES if example.kind in TARGETS]
STANDARD_ERRORS = 6
DRAWS = 20_000


def test_every_model_has_a_target_and_all_with_densities_have_examples() -> None:
    assert set(TARGETS) == set(MODELS)
    assert {example.kind for example in ALL} == set(TARGETS) - {"lda"}


@every_target
def test_gradients_are_those_of_the_densities(example: Example) -> None:
    assert gradient_fault(*_in_order(case(example))) is None


def _in_order(made: Case) -> tuple[Any, np.ndarray, np.ndarray]:
    return made.target, made.theta, made.rows


class Doubled:
    """A planted mistake: one coordinate of a gradient is twice as large."""

    def __init__(self, target: Any, member: str) -> None:
        self.target, self.member = target, member

    def __getattr__(self, name: str) -> Any:
        original = getattr(self.target, name)
        if name != self.member:
            return original

        def wrong(*arguments: Any) -> np.ndarray:
            found = original(*arguments).copy()
            found[:, -1] *= 2
            return found

        return wrong


@every_target
@pytest.mark.parametrize("member", ["gradient", "prior_gradient"])
def test_a_wrong_gradient_is_found_and_named(example: Example, member: str) -> None:
    target, theta, rows = _in_order(case(example))
    fault = gradient_fault(Doubled(target, member), theta, rows)
    assert fault is not None
    assert fault.startswith(f"{member} has ")


@every_target
def test_many_places_and_rows_are_as_one_by_one(example: Example) -> None:
    target, rows, theta = case(example)
    logs, slopes = target.log_likelihood(theta, rows), target.gradient(theta, rows)
    assert logs.shape == (len(theta), len(rows))
    assert slopes.shape == theta.shape
    for k, at in enumerate(theta):
        for n, row in enumerate(rows[:5]):
            assert target.log_likelihood(at[None], row[None])[0, 0] == pytest.approx(logs[k, n], rel=1e-10, abs=1e-12)
        np.testing.assert_allclose(target.gradient(at[None], rows)[0], slopes[k], rtol=1e-9, atol=1e-9)
        each = scores(target, at, rows)
        np.testing.assert_allclose(each.sum(axis=0), slopes[k], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(each[3], target.gradient(at[None], rows[3:4])[0], rtol=1e-9, atol=1e-9)


@every_target
def test_a_density_sums_blocks_of_rows_and_tempers_the_prior(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    target, rows, theta = case(example)
    half = Density(target, rows, 0.5)
    expected = 0.5 * target.log_prior(theta) + target.log_likelihood(theta, rows).sum(axis=1)
    slope = 0.5 * target.prior_gradient(theta) + target.gradient(theta, rows)
    monkeypatch.setattr("streaminfer.models.targets.parts.NUMBERS", 7)
    np.testing.assert_allclose(half.log_density(theta), expected, rtol=1e-12)
    np.testing.assert_allclose(half.gradient(theta), slope, rtol=1e-9, atol=1e-9)


class Plain:
    """A target that takes no weights."""

    weighs = False

    def __init__(self, target: Any) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.target.gradient(theta, rows)

    def curvature(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.target.curvature(theta, rows)


@every_target
def test_events_count_by_their_weights_and_the_prior_as_before(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole weight is that many copies of a row; the densities say the rest."""
    target, rows, theta = case(example)
    assert target.weighs
    times = np.arange(len(rows)) % 4
    weighted, copies = Density(target, rows, weights=times.astype(float)), Density(target, np.repeat(rows, times, 0))
    monkeypatch.setattr("streaminfer.models.targets.parts.NUMBERS", 23)
    for one in (weighted, Density(Plain(target), rows, weights=times.astype(float))):
        np.testing.assert_allclose(one.log_density(theta), copies.log_density(theta), rtol=1e-10)
        np.testing.assert_allclose(one.gradient(theta), copies.gradient(theta), rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(one.curvature(theta[0]), copies.curvature(theta[0]), rtol=1e-9, atol=1e-8)
    halves = Density(target, rows, weights=np.full(len(rows), 0.5))
    whole = Density(target, rows)
    slopes = 2 * halves.gradient(theta) - target.prior_gradient(theta)
    np.testing.assert_allclose(slopes, whole.gradient(theta), rtol=1e-9, atol=1e-8)


def test_weights_that_do_not_fit_are_refused() -> None:
    target, rows, _ = case(ALL[0])
    with pytest.raises(ValueError, match="one for each row"):
        Density(target, rows, weights=np.ones(len(rows) - 1))


def _learned(example: Example, n: int = 40) -> Any:
    """A posterior of the model after one minibatch."""
    model = model_of(example)
    if not n:
        return model.posterior(model.empty())
    base = Base(1, 1, model.empty(), model.posterior(model.empty()))
    events = example.events(np.random.default_rng(1), n)
    return model.posterior(svb.step(model, base, events, None).statistics)


@every_target
def test_the_densities_of_posteriors_are_those_of_their_draws(example: Example) -> None:
    target, _, _ = case(example)
    posterior = _learned(example)
    draws = target.unconstrain(posterior.sample(np.random.default_rng(8), DRAWS))
    assert_stein(target.posterior_gradient(posterior, draws), draws)
    some = draws[:5]
    given = target.posterior_gradient(posterior, some)
    expected = differences(lambda at: target.log_posterior(posterior, at), some)
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@every_target
def test_the_posterior_of_no_events_is_the_prior(example: Example) -> None:
    target, _, theta = case(example)
    prior = _learned(example, 0)
    np.testing.assert_allclose(target.log_posterior(prior, theta), target.log_prior(theta), rtol=1e-10)
    np.testing.assert_allclose(target.posterior_gradient(prior, theta), target.prior_gradient(theta), rtol=1e-9)


@pytest.mark.parametrize("example", CONJUGATE, ids=[example.name for example in CONJUGATE])
def test_a_conjugate_posterior_is_prior_times_likelihood_over_evidence(example: Example) -> None:
    """Every constant is right, and the Jacobian is counted once."""
    target, rows, theta = case(example)
    posterior = _learned(example)
    joint = Density(target, rows).log_density(theta)
    np.testing.assert_allclose(target.log_posterior(posterior, theta), joint - posterior.log_evidence(), rtol=1e-9)


@having("curvature")
def test_curvature_is_minus_the_derivative_of_the_gradient(example: Example) -> None:
    target, rows, theta = case(example, k=1)
    made, at = Density(target, rows, 0.7), theta[0]
    steps = 1e-5 * np.eye(len(at))
    found = [-(made.gradient((at + s)[None])[0] - made.gradient((at - s)[None])[0]) / 2e-5 for s in steps]
    size = np.abs(found).max()
    np.testing.assert_allclose(made.curvature(at), found, rtol=1e-6, atol=1e-7 * size)


@every_target
def test_parameters_and_places_are_one_to_one(example: Example) -> None:
    target, _, theta = case(example)
    parameters = target.constrain(theta)
    assert {name: value.shape[1:] for name, value in parameters.items()} == dict(target.shapes)
    assert set(parameters) == set(model_of(example).posterior(model_of(example).empty()).moments())
    np.testing.assert_allclose(target.unconstrain(parameters), theta, rtol=1e-9, atol=1e-10)


@every_target
def test_no_places_are_no_parameters(example: Example) -> None:
    """A block of steps may have no draw in it."""
    target, _, theta = case(example)
    parameters = target.constrain(theta[:0])
    assert {name: value.shape for name, value in parameters.items()} == {
        name: (0, *shape) for name, shape in target.shapes.items()
    }
    assert target.unconstrain(parameters).shape == (0, target.dimension)


@every_target
def test_the_prior_is_that_of_its_draws_with_the_jacobian(example: Example) -> None:
    target, _, _ = case(example)
    theta = target.sample_prior(np.random.default_rng(2), DRAWS)
    assert_stein(target.prior_gradient(theta), theta)


def assert_stein(slopes: np.ndarray, draws: np.ndarray, batches: int | None = None) -> None:
    """E[g] = 0 and E[f g + f'] = 0, f = tanh, for draws whose log density has the gradient g.

    By means of batches if draws depend on those before.
    """
    low, centre, high = np.quantile(draws, [0.2, 0.5, 0.8], axis=0)
    width = high - low
    f = np.tanh((draws - centre) / width)
    for values in (slopes * width, slopes * width * f + 1 - f**2):
        each = values if batches is None else values.reshape(batches, -1, values.shape[1]).mean(axis=1)
        assert_mean(each, 0.0)


def assert_mean(values: np.ndarray, expected: float) -> None:
    """The mean of independent rows, within standard errors."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    z = np.abs(values.mean(axis=0) - expected) / error
    assert z.max() < STANDARD_ERRORS, z


@pytest.mark.parametrize("example", CONJUGATE, ids=[example.name for example in CONJUGATE])
def test_the_density_is_that_of_a_conjugate_posterior(example: Example) -> None:
    """The model draws from its posterior by closed forms that know nothing of the target."""
    model = model_of(example)
    assert is_conjugate(model)
    events = example.events(np.random.default_rng(1), 40)
    target = case(example).target
    draws = target.unconstrain(model.posterior(model.statistics(events)).sample(np.random.default_rng(3), DRAWS))
    assert_stein(Density(target, target.rows(events)).gradient(draws), draws)


@having("lower_bound")
def test_lower_bounds_touch_and_stay_below(example: Example) -> None:
    target, rows, theta = case(example)
    grid = np.concatenate([np.linspace(-60, 60, 4001), [0.0, 1e-9, -1e-9]])
    for at in (-50.0, -3.0, -1e-3, -1e-7, 0.0, 1e-5, 0.4, 2.0, 30.0):
        bound = target.lower_bound(np.array([at]))
        logs = target.ascent(grid).log
        assert (bound(grid) <= logs + 1e-10 * (1 + np.abs(logs))).all(), at
        assert bound(np.array([at]))[0] == pytest.approx(target.ascent(np.array([at])).log[0], rel=1e-10, abs=1e-12)
    margins = rows @ theta[0]
    a, b, c = target.lower_bound(margins)
    collapsed = theta[1] @ ((a[:, None] * rows).T @ rows) @ theta[1] + (b @ rows) @ theta[1] + c.sum()
    assert collapsed <= target.log_likelihood(theta[1:2], rows).sum() + 1e-9
    other = target.lower_bound(margins)(rows @ theta[1]).sum()
    assert collapsed == pytest.approx(other, rel=1e-10)


@having("derivative_bounds")
def test_derivative_bounds_hold_and_are_tight(example: Example) -> None:
    target, _, _ = case(example)
    grid = np.linspace(-40, 40, 800_001)
    _, slope, bend = target.ascent(grid)
    third = np.gradient(-bend, grid)
    for bound, size in zip(target.derivative_bounds, (slope, bend, np.abs(third)), strict=True):
        if bound is not None:
            assert size.max() <= bound * (1 + 1e-6)
            assert size.max() >= 0.99 * bound
        else:
            assert size.max() > 30


@having("derivative_bounds")
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("whitened", [False, True])
def test_remainders_change_by_no_more_than_their_bounds(example: Example, order: int, whitened: bool) -> None:
    target, rows, theta = case(example)
    if order not in remainders.orders(target):
        with pytest.raises(ValueError, match="no bound for expansions of order 0"):
            remainders.scales(target, rows, order)
        return
    rng, d = np.random.default_rng(4), target.dimension
    root = np.linalg.inv(np.linalg.cholesky(rows.T @ rows)).T if whitened else np.eye(d)
    anchor, largest = theta[0], 0.0
    scales = remainders.scales(target, rows, order, root)
    for size in (0.01, 0.3, 3.0):
        u, v = size * rng.standard_normal((2, 200, d))
        v = np.where(rng.random((200, 1)) < 0.5, u + 0.1 * v, v)
        left, right = (
            target.log_likelihood(anchor + w @ root.T, rows)
            - remainders.expanded(target, order, anchor, anchor + w @ root.T, rows)
            for w in (u, v)
        )
        lengths = (np.linalg.norm(each, axis=1) for each in (u, v, u - v))
        allowed = remainders.change(order, *lengths)[:, None] * scales
        # Where a bound is below the rounding of a log likelihood the difference of two of them says nothing.
        assert (np.abs(left - right) <= allowed * (1 + 1e-9) + 1e-12).all()
        assert (np.abs(left) <= remainders.remainder(order, np.linalg.norm(u, axis=1))[:, None] * scales + 1e-12).all()
        largest = max(largest, float((np.abs(left - right) / (allowed + 1e-9)).max()))
    assert largest > 0.2


@having("derivative_bounds")
@pytest.mark.parametrize("order", [0, 1, 2])
def test_expansions_of_sums_are_sums_of_expansions(example: Example, order: int) -> None:
    target, rows, theta = case(example)
    whole = remainders.expansion(Density(target, rows), theta[0], order)
    each = remainders.expanded(target, order, theta[0], theta, rows)
    np.testing.assert_allclose(whole(theta), each.sum(axis=1), rtol=1e-10)


@having("blocks")
def test_only_what_stays_closed_is_tempered(example: Example) -> None:
    target, rows, theta = case(example, n=12)
    assert target.tempers(1.0)
    if not target.tempers(0.5):
        with pytest.raises(ValueError, match="no closed form"):
            _scanned(target, rows, theta[0], 0.5, 1)


GIBBS = [
    pytest.param(example, share, id=f"{example.name}-{share}", marks=[pytest.mark.long] if slow else [])
    for example in ALL
    for share in (1.0, 0.5)
    if case(example).target.tempers(share)
    for slow in [example.kind == "gaussian_mixture" or "diagonal" in example.name]
]


@pytest.mark.parametrize(("example", "share"), GIBBS)
def test_conditional_draws_are_of_the_posterior(example: Example, share: float) -> None:
    target, rows, theta = case(example, n=12)
    draws = _scanned(target, rows, theta[0], share, 6000 if example.kind == "gaussian_mixture" else 2000)
    assert_stein(Density(target, rows, share).gradient(draws), draws, batches=200)


def _scanned(target: Any, rows: np.ndarray, theta: np.ndarray, share: float, count: int) -> np.ndarray:
    rng, summary = np.random.default_rng(5), target.summary(rows)
    at, found = Drawn(theta, np.empty(0)), []
    for _ in range(count):
        for block in target.blocks:
            at = target.draw(block, at, rows, summary, share, rng)
        found.append(at.theta)
    return np.array(found)
