"""Metropolis–Hastings on a few states, where its transition matrix is known, and its adaptation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.kernels import mala, mh
from streaminfer.sampling.randomness import Key
from tests.models.targets.cases import ALL, case
from tests.sampling.gaussians import Gaussian

KEY = Key(8, "steps")
PI = np.array([0.1, 0.05, 0.4, 0.25, 0.2])
Q = np.array(
    [
        [0.0, 0.9, 0.1, 0.0, 0.0],
        [0.3, 0.0, 0.6, 0.1, 0.0],
        [0.1, 0.2, 0.1, 0.2, 0.4],
        [0.0, 0.5, 0.3, 0.0, 0.2],
        [0.0, 0.0, 0.8, 0.1, 0.1],
    ]
)
"""A proposal that is far from symmetric."""


class States:
    """A target on 0, ..., 4."""

    dimension, columns = 1, 1

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return np.log(PI)[theta[:, 0].astype(int)]

    def log_likelihood(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.zeros((len(theta), len(rows)))


class Table:
    """q(j | i) = Q[i, j]."""

    def propose(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.array([float(rng.choice(5, p=Q[int(theta[0])]))])

    def log_ratio(self, theta: np.ndarray, proposed: np.ndarray) -> float:
        i, j = int(theta[0]), int(proposed[0])
        with np.errstate(divide="ignore"):
            return float(np.log(Q[j, i]) - np.log(Q[i, j]))


class Symmetric(Table):
    """A mutant: the Hastings ratio is left out."""

    def log_ratio(self, theta: np.ndarray, proposed: np.ndarray) -> float:
        return 0.0


def transitions(proposal: Table) -> np.ndarray:
    """T of one step: what is proposed and accepted, and what stays."""
    T = np.zeros((5, 5))
    for i in range(5):
        for j in np.flatnonzero(Q[i]):
            ratio = proposal.log_ratio(np.array([i]), np.array([j]))
            T[i, j] = Q[i, j] * math.exp(mh.log_acceptance(math.log(PI[i]), math.log(PI[j]), ratio))
        T[i, i] += 1 - T[i].sum()
    return T


def test_the_target_is_stationary_and_the_chain_reversible() -> None:
    T = transitions(Table())
    np.testing.assert_allclose(PI @ T, PI, atol=1e-14)
    flow = PI[:, None] * T
    np.testing.assert_allclose(flow, flow.T, atol=1e-14)
    wrong = transitions(Symmetric())
    assert np.abs(PI @ wrong - PI).max() > 0.01


@pytest.mark.parametrize("proposal", [Table(), Symmetric()], ids=["right", "mutant"])
def test_steps_have_these_transitions(proposal: Table) -> None:
    """Counts of 20,000 transitions, within 5.5 standard errors; those of the mutant are its own."""
    density = Density(States(), np.zeros((1, 1)))
    state = mh.State(np.array([0.0]), math.log(PI[0]), mh.init(density, np.array([0.0])).adaptation)
    state, positions, info = mh.steps(density, state, KEY.generator(0), 20_000, proposal)
    path = positions[:, 0].astype(int)
    counts = np.zeros((5, 5))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    n, T = counts.sum(axis=1, keepdims=True), transitions(proposal)
    z = (counts - n * T) / np.sqrt(n * T * (1 - T) + 1e-9)
    assert np.abs(z).max() < 5.5
    assert (counts[T == 0] == 0).all()
    other = transitions(Symmetric() if type(proposal) is Table else Table())
    assert np.abs((counts - n * other) / np.sqrt(n * other * (1 - other) + 1e-9)).max() > 10
    assert info.n_proposed == 20_000
    assert info.n_likelihood == 20_000


def test_densities_of_zero_are_left_and_never_entered() -> None:
    assert mh.log_acceptance(-math.inf, -3.0, 0.0) == 0.0
    assert mh.log_acceptance(-3.0, -math.inf, 0.0) == -math.inf
    assert mh.log_acceptance(-math.inf, -math.inf, 0.0) == -math.inf
    assert mh.log_acceptance(-3.0, -2.0, math.nan) == -math.inf


def test_adaptation_finds_the_covariance_and_the_acceptance_and_fades() -> None:
    """A Gaussian of deviations 0.05, 1 and 30 with a correlation; errors of the last half by batch means."""
    cov = np.array([[0.0025, 0.03, 0.0], [0.03, 1.0, 12.0], [0.0, 12.0, 900.0]])
    density = Density(Correlated(cov), np.zeros((1, 3)))
    state = mh.init(density, np.zeros(3))
    state, _, _ = mh.steps(density, state, KEY.generator(0), 6000, adapting=True)
    before = state.adaptation
    state, path, info = mh.steps(density, state, KEY.generator(1), 30_000)
    assert state.adaptation == before  # frozen after warm-up
    root = np.linalg.cholesky(cov)
    white = np.linalg.solve(root, path.T).T
    for i in range(3):
        for j in range(i + 1):
            each = (white[:, i] * white[:, j]).reshape(200, -1).mean(axis=1)
            assert abs(each.mean() - (i == j)) < 5.5 * each.std() / np.sqrt(200)
    assert 0.15 < info.n_accepted / info.n_proposed < 0.4
    learned = np.linalg.solve(root, np.linalg.solve(root, before.cov).T)
    assert 0.3 < np.linalg.eigvalsh(learned).min() < np.linalg.eigvalsh(learned).max() < 3
    later = mh.adapted(before._replace(n=10**6), np.zeros(3), 1.0, 0.234)
    assert abs(later.log_scale - before.log_scale) < 0.001
    assert np.abs(np.linalg.solve(root, np.linalg.solve(root, later.cov - before.cov).T)).max() < 0.01


class Correlated(Gaussian):
    def __init__(self, cov: np.ndarray) -> None:
        super().__init__(len(cov), 1, 0.0, 0.0)
        self.precision = np.linalg.inv(cov)

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return -0.5 * np.einsum("ki,ij,kj->k", theta, self.precision, theta)

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return -theta @ self.precision


def test_a_covariance_that_lost_a_direction_still_gives_proposals() -> None:
    """A chain that never moved has learned a covariance of 0 but for its start."""
    learned = mh.init(Density(States(), np.zeros((1, 1))), np.zeros(1)).adaptation
    for _ in range(3000):
        learned = mh.adapted(learned, np.zeros(1), 0.0, 0.234)
    assert learned.proposal.factor[0, 0] > 0
    assert learned.proposal.scale > 0


@pytest.mark.parametrize("name", ["logistic", "cloud", "line", "clouds"])
@pytest.mark.parametrize("whole", [False, True])
def test_mala_proposals_balance(name: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """p(x) q(y | x) alpha(x, y) is the same with x and y exchanged, by the normal density of the proposal itself."""
    target, rows, theta = case(next(example for example in ALL if example.name == name))
    density, d = Density(target, rows), target.dimension
    shape = np.random.default_rng(1).standard_normal((d, d)) * 0.1 + np.eye(d)
    by = preconditioning.mode(50 * shape @ shape.T)
    if not whole:
        by = preconditioning.Preconditioner(np.full(d, 0.02), np.full(d, math.sqrt(0.02)))
    C = by.matrix if whole else np.diag(by.matrix)
    seen: list[float] = []
    monkeypatch.setattr(mh, "log_acceptance", lambda *terms: (seen.append(sum(terms[1:]) - terms[0]), -math.inf)[1])
    size = 0.7
    for k in range(20):
        state = mala.init(density, theta[k % 3], size)
        mala.step(density, state, KEY.generator(k), by)
        noise = KEY.generator(k).standard_normal(d)
        x = theta[k % 3]
        y = x + 0.5 * size * C @ state.gradient + math.sqrt(size) * by.spread(noise)
        logs = density.log_density(np.stack([x, y]))
        slopes = density.gradient(np.stack([x, y]))
        forth = _log_normal(y, x + 0.5 * size * C @ slopes[0], size * C)
        back = _log_normal(x, y + 0.5 * size * C @ slopes[1], size * C)
        expected = logs[1] - logs[0] + back - forth
        assert seen[-1] == pytest.approx(expected, rel=1e-6, abs=1e-6)


def _log_normal(x: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> float:
    return float(-0.5 * (x - mean) @ np.linalg.solve(cov, x - mean))


def test_mala_finds_its_step_and_the_target() -> None:
    cov = np.diag([4.0, 0.25, 1.0])
    density = Density(Correlated(cov), np.zeros((1, 3)))
    by = preconditioning.mode(np.linalg.inv(cov))
    state, _, _ = mala.steps(density, mala.init(density, np.ones(3), 0.1), KEY.generator(0), 2000, by, adapting=True)
    _, path, info = mala.steps(density, state, KEY.generator(1), 10_000, by)
    assert 0.5 < info.n_accepted / info.n_proposed < 0.65
    squares = (path**2 / cov.diagonal()).reshape(200, -1, 3).mean(axis=1)
    assert (np.abs(squares.mean(axis=0) - 1) < 5.5 * squares.std(axis=0) / np.sqrt(200)).all()
