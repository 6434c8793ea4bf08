from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaminfer.models.targets import mode
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import bias, preconditioning, tuning
from streaminfer.sampling.gradients.estimates import Anchor, Gradients, anchor
from streaminfer.sampling.gradients.minibatches import Shuffled
from streaminfer.sampling.randomness import Key
from tests.models.examples import Example
from tests.models.targets.cases import case, every_target, having


def single_rows(gradients: Gradients, theta: np.ndarray) -> np.ndarray:
    """The estimates from each row by itself."""
    return np.array([gradients(theta, np.array([i])) for i in range(gradients.density.n)])


@every_target
def test_estimates_are_unbiased(example: Example) -> None:
    """The mean over all minibatches of one row is the gradient."""
    target, rows, theta = case(example)
    density = Density(target, rows, 0.5)
    expected = density.gradient(theta[1:2])[0]
    size = np.abs(expected).max() + len(rows)
    for gradients in (Gradients(density), Gradients(density, anchor(density, theta[0]))):
        np.testing.assert_allclose(single_rows(gradients, theta[1]).mean(axis=0), expected, atol=1e-9 * size)


@every_target
def test_control_variates_have_no_noise_at_the_anchor_and_less_near_it(example: Example) -> None:
    target, rows, theta = case(example)
    density = Density(target, rows)
    controlled = Gradients(density, anchor(density, theta[0]))
    size = np.abs(single_rows(Gradients(density), theta[0])).max()
    assert single_rows(controlled, theta[0]).std(axis=0).max() <= 1e-9 * size
    near = theta[0] + 1e-3
    plain = single_rows(Gradients(density), near).std(axis=0)
    assert (single_rows(controlled, near).std(axis=0) <= 0.1 * plain + 1e-9 * size).all()


@every_target
def test_a_mutant_with_the_minibatchs_own_gradient_at_the_anchor_is_plain(example: Example) -> None:
    """The classical mistake: what is taken away is added again, so that nothing is gained."""
    target, rows, theta = case(example)
    density = Density(target, rows)
    fixed, plain = anchor(density, theta[0]), Gradients(density)
    for i in range(5):
        own = density.n * target.gradient(theta[:1], rows[i : i + 1])[0]
        mutant = Gradients(density, fixed._replace(gradient=own))
        np.testing.assert_allclose(
            mutant(theta[1], np.array([i])), plain(theta[1], np.array([i])), rtol=1e-7, atol=1e-7 * np.abs(own).max()
        )
    assert np.abs(Gradients(density, fixed)(theta[0], np.array([0])) - plain(theta[0], np.array([0]))).max() > 1e-3


@every_target
def test_what_rows_add_is_the_estimate(example: Example) -> None:
    target, rows, theta = case(example)
    density = Density(target, rows)
    for gradients in (Gradients(density), Gradients(density, anchor(density, theta[0]))):
        base = target.prior_gradient(theta[1:2])[0]
        base = base + (gradients.anchor.gradient if gradients.anchor is not None else 0)
        found = base + len(rows) / 3 * gradients.terms(theta[1], rows[:3]).sum(axis=0)
        expected = gradients(theta[1], np.arange(3))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_slopes_at_the_anchor_are_kept_if_events_are_margins() -> None:
    for example, kept in ((by_name("logistic"), 40), (by_name("count"), 0)):
        target, rows, theta = case(example)
        made = anchor(Density(target, rows), theta[0])
        assert isinstance(made, Anchor)
        assert len(made.slopes) == kept
        assert Gradients(Density(target, rows), made).cost == (1 if kept else 2)


def by_name(name: str) -> Example:
    from tests.models.targets.cases import ALL

    return next(example for example in ALL if example.name == name)


@having("curvature")
def test_noise_is_the_largest_eigenvalue_of_the_estimates_covariance(example: Example) -> None:
    """By 64 draws that the same generator gives, and all estimates from single rows."""
    target, rows, _ = case(example)
    density = Density(target, rows)
    found = mode.find(density)
    assert found.curvature is not None
    by = preconditioning.mode(found.curvature)
    for gradients in (Gradients(density), Gradients(density, anchor(density, found.theta))):
        white = np.random.default_rng(5).standard_normal((bias.DRAWS, density.dimension))
        draws = found.theta + by.spread(white)
        covs = [np.atleast_2d(np.cov(by.whiten(single_rows(gradients, at)).T, bias=True)) for at in draws]
        logs = density.log_density(draws) - density.log_density(found.theta[None]) + 0.5 * (white**2).sum(axis=1)
        expected = np.linalg.eigvalsh(np.average(covs, axis=0, weights=np.exp(np.minimum(logs, 0.0))))[-1] / 10
        noise = bias.gradient_noise(gradients, found.theta, by, 10, np.random.default_rng(5))
        assert noise == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_every_preconditioner_has_an_upper_root() -> None:
    """A lower one is read as an upper one by the density of proposals."""
    rng = np.random.default_rng(6)
    given = rng.standard_normal((4, 4)) * [1e-3, 1.0, 5.0, 1e4]
    cov = given.T @ given
    for by in (preconditioning.covariance(cov), preconditioning.mode(np.linalg.inv(cov))):
        np.testing.assert_allclose(by.root @ by.root.T, cov, rtol=1e-6)
        np.testing.assert_allclose(by.matrix, cov, rtol=1e-6)
        assert not np.tril(by.root, -1).any()


def test_noise_of_many_rows_is_measured_on_some(monkeypatch: pytest.MonkeyPatch) -> None:
    target, rows, _ = case(by_name("logistic"), n=20_000)
    density = Density(target, rows)
    found = mode.find(density)
    made = [
        tuning.tuned(density, found, "sgld", np.random.default_rng(1)).noise
        for most in (20_000, 5000)
        if monkeypatch.setattr(bias, "MOST_ROWS", most) is None
    ]
    assert made[1] == pytest.approx(made[0], rel=0.15)
    plain = tuning.tuned(density, found, "sgld", np.random.default_rng(1), control_variates=False).noise
    # In posterior units a gradient of B of N events has noise of about N / B.
    assert plain == pytest.approx(20_000 / 256, rel=0.2)
    assert made[0] < plain / 20


def test_tuned_dynamics_take_minibatches_of_at_most_all_events() -> None:
    target, rows, _ = case(by_name("logistic"))
    density = Density(target, rows)
    found = mode.find(density)
    made = tuning.tuned(density, found, "sgld", np.random.default_rng(1), minibatch=256)
    assert made.dynamics.minibatches.size == 40
    shuffled = Shuffled(40, 10, Key(1, "steps"))
    assert tuning.tuned(
        density, found, "sgld", np.random.default_rng(1), minibatch=10, minibatches=shuffled
    ).dynamics.minibatches == replace(shuffled)
    with pytest.raises(ValueError, match="there are no events"):
        tuning.tuned(Density(target, rows[:0]), found, "sgld", np.random.default_rng(1))
    with pytest.raises(ValueError, match="needs the curvature"):
        tuning.tuned(density, found._replace(curvature=None), "sgld", np.random.default_rng(1))
