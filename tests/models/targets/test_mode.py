"""Modes: at closed forms, whatever the units of features, and honest about densities that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets import mode, target_of
from streaminfer.models.targets.density import Density
from tests.models.examples import Example, build
from tests.models.targets.cases import ALL, case, every_target
from tests.sampling.gaussians import Gaussian


@every_target
def test_the_gradient_vanishes_at_the_mode(example: Example) -> None:
    target, rows, _ = case(example)
    density = Density(target, rows, 0.6)
    found = mode.find(density)
    slope = density.gradient(found.theta[None])[0]
    if found.curvature is not None:
        # In units of the posterior's deviations.
        assert float(slope @ np.linalg.solve(found.curvature, slope)) < 1e-12
    else:
        assert np.abs(slope).max() < 1e-3
    near = found.theta + 0.01 * np.random.default_rng(1).standard_normal((50, target.dimension))
    assert (density.log_density(near) <= density.log_density(found.theta[None])[0] + 1e-6).all()


@pytest.mark.parametrize(
    "example", [each for each in ALL if each.kind != "gaussian_mixture"], ids=lambda each: each.name
)
def test_the_mode_does_not_depend_on_the_start(example: Example) -> None:
    """A mixture has several modes."""
    target, rows, theta = case(example)
    density = Density(target, rows)
    found = mode.find(density)
    assert found.curvature is not None
    sizes = 1 / np.sqrt(found.curvature.diagonal())
    for at in theta:
        other = mode.find(density, at)
        assert (np.abs(other.theta - found.theta) < 1e-4 * sizes).all()


def test_modes_of_counts_are_closed_forms() -> None:
    """With the Jacobian: logit of (alpha + ones) / (alpha + beta + n), log of (shape + k) / (rate + n)."""
    coin = target_of(build("bernoulli", field="y", prior={"alpha": 2.0, "beta": 3.0}))
    rows = np.repeat([1.0, 0.0], [4, 16])[:, None]
    assert mode.find(Density(coin, rows)).theta == pytest.approx([np.log(6 / 19)])
    rate = target_of(build("poisson", field="k", prior={"shape": 2.0, "rate": 3.0}))
    rows = rate.rows(np.array([[3.0], [5.0]]))
    assert mode.find(Density(rate, rows)).theta == pytest.approx([np.log(10 / 5)])


CLASSIFIERS = ["logistic_regression", "probit_regression"]


def _classified(kind: str, rows: np.ndarray, labels: np.ndarray, **prior: float) -> Density:
    names = [f"x{i}" for i in range(rows.shape[1])]
    target = target_of(build(kind, features=names, target="y", prior=prior))
    return Density(target, target.rows(np.column_stack([rows, labels])))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_features_of_any_size_have_a_mode(kind: str) -> None:
    """Of sizes 1e-6 to 1e6 beside each other; with priors in the same units it is the same mode."""
    rng = np.random.default_rng(2)
    plain = rng.standard_normal((500, 3))
    labels = (plain @ [1.0, -2.0, 0.5] + rng.logistic(size=500) > 0).astype(float)
    units = np.array([1e-6, 1e6, 1.0])
    expected = mode.find(_classified(kind, plain, labels))
    precision = {"precision": list(units**2)}
    found = mode.find(_classified(kind, plain * units, labels, **precision))
    np.testing.assert_allclose(found.theta[1:] * units, expected.theta[1:], rtol=1e-6)
    raw = mode.find(_classified(kind, plain * units, labels))
    assert raw.curvature is not None
    assert np.isfinite(raw.theta).all()


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_separated_data_and_one_class_have_the_priors_mode(kind: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((300, 2))
    for labels in ((rows[:, 0] > 0).astype(float), np.ones(300), np.zeros(300)):
        density = _classified(kind, rows, labels)
        found = mode.find(density)
        assert found.curvature is not None
        slope = density.gradient(found.theta[None])[0]
        assert float(slope @ np.linalg.solve(found.curvature, slope)) < 1e-12


def test_separated_data_have_a_mode_far_away_if_the_prior_is_weak() -> None:
    """A precision of 1e-40 puts it where an event has a slope of 1e-40."""
    rows = np.random.default_rng(4).standard_normal((200, 1))
    density = _classified("logistic_regression", rows, (rows[:, 0] > 0).astype(float), precision=1e-40)
    found = mode.find(density)
    assert found.curvature is not None
    assert found.theta[1] > 1000
    slope = density.gradient(found.theta[None])[0]
    assert float(slope @ np.linalg.solve(found.curvature, slope)) < 1e-6


def test_no_events_have_the_priors_mode() -> None:
    density = _classified("logistic_regression", np.zeros((0, 2)), np.zeros(0), mean=1.5)
    np.testing.assert_allclose(mode.find(density).theta, 1.5)


class Rising(Gaussian):
    """A density that rises for ever, with a curvature that says otherwise."""

    def __init__(self) -> None:
        super().__init__(1, 1, 0.0, 0.0)

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return np.log1p(np.exp(-np.abs(theta[:, 0]))) + np.maximum(theta[:, 0], 0.0)

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-theta))

    def prior_curvature(self, theta: np.ndarray) -> np.ndarray:
        return np.eye(1)


class Unbounded(Rising):
    """The same without a curvature."""

    curvature: Any
    prior_curvature: Any

    def __getattribute__(self, name: str) -> Any:
        if name in {"curvature", "prior_curvature"}:
            raise AttributeError(name)
        return super().__getattribute__(name)


def test_a_density_without_a_mode_is_an_error() -> None:
    with pytest.raises(mode.NoModeError, match="still rises after 200 steps"):
        mode.find(Density(Rising(), np.zeros((1, 1))))
    with pytest.raises(mode.NoModeError, match="would still gain"):
        mode.find(Density(Unbounded(), np.zeros((1, 1))))


class Flat(Rising):
    """A density of two coordinates that knows one of them only."""

    def __init__(self) -> None:
        super().__init__()
        self.dimension = 2

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return -0.5 * theta[:, 0] ** 2

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return np.column_stack([-theta[:, 0], np.zeros(len(theta))])

    def curvature(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.zeros((2, 2))

    def prior_curvature(self, theta: np.ndarray) -> np.ndarray:
        return np.diag([1.0, 0.0])


def test_what_data_and_prior_do_not_determine_is_an_error() -> None:
    with pytest.raises(mode.NoModeError, match=r"not determined|no step raises"):
        mode.find(Density(Flat(), np.zeros((1, 2))))


def test_a_start_without_density_is_an_error() -> None:
    with pytest.raises(mode.NoModeError, match="where the search for the mode starts"):
        mode.init(Density(Rising(), np.zeros((1, 1))), np.array([np.nan]))


def test_a_wrong_gradient_is_an_error() -> None:
    class Wrong(Gaussian):
        def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
            return super().prior_gradient(theta) * -1 + 1

    with pytest.raises(mode.NoModeError, match="is the gradient right"):
        mode.find(Density(Wrong(2, 1, 0.0, 1.0), np.zeros((1, 2))), np.array([1.0, 2.0]))


def test_one_step_is_one_pass_so_that_a_search_goes_in_slices() -> None:
    target, rows, _ = case(next(e for e in _all() if e.name == "logistic"))
    density = Density(target, rows)
    state = mode.init(density)
    while not state.done:
        before = state
        state = mode.step(density, state)
        assert state.n_gradient == before.n_gradient + 2
    np.testing.assert_array_equal(mode.found(density, state).theta, mode.find(density).theta)


def _all() -> list[Example]:
    from tests.models.targets.cases import ALL

    return ALL
