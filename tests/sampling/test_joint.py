"""The joint test of every exact kernel on every model, with mutants and biased kernels that fail it.

A false alarm is |z| > 5.5 by 200 batches, below 2e-7 each; with some 300 of them below 1e-4 a run.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.models.targets import TARGETS, mode
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import bias, preconditioning, tuning
from streaminfer.sampling.gradients.minibatches import Random
from streaminfer.sampling.kernels import flymc, gibbs, mala, mh, sgld
from tests.sampling.joint import Kernel, z_scores
from tests.sampling.simulating import KINDS, World, world


def test_every_model_with_a_density_is_tested() -> None:
    assert set(KINDS) == set(TARGETS) - {"lda"}


def _mh(made: World) -> Kernel:
    """A random walk by the prior's covariance: the same for all data, as a kernel must not know them."""
    cov = np.cov(made.target.sample_prior(np.random.default_rng(1), 4000).T).reshape((made.target.dimension,) * 2)
    proposal = mh.RandomWalk(1.2 / math.sqrt(len(cov)), np.linalg.cholesky(cov))

    def move(density: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return mh.steps(density, mh.init(density, theta), rng, 4, proposal)[0].position

    return move


def _mala(made: World) -> Kernel:
    deviations = made.target.sample_prior(np.random.default_rng(1), 4000).std(axis=0)
    by = preconditioning.Preconditioner(deviations**2, deviations)

    def move(density: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return mala.steps(density, mala.init(density, theta, 0.35), rng, 3, by)[0].position

    return move


def _gibbs(scan: gibbs.Scan) -> Kernel:
    def move(density: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return gibbs.step(density, gibbs.init(density, theta, rng, scan), rng, scan)[0].position

    return move


def _flymc(update: str) -> Kernel:
    """Brightness is drawn with the data, given theta, so each transition begins with an exact draw of it."""
    rule = flymc.Update(update, 0.4)

    def move(density: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        bounds = flymc.bound(density, np.full(density.n, 1.5))
        state = flymc.init(density, bounds, theta, 0.7, rng)
        return flymc.steps(density, bounds, state, rng, 3, rule, preconditioning.none(len(theta)))[0].walk.position

    return move


def kernel(name: str, made: World) -> Kernel:
    return {
        "flymc": lambda: _flymc("implicit"),
        "explicit-flymc": lambda: _flymc("explicit"),
        "mh": lambda: _mh(made),
        "mala": lambda: _mala(made),
        "gibbs": lambda: _gibbs("systematic"),
        "random-gibbs": lambda: _gibbs("random"),
    }[name]()


LATENT = ("logistic_regression", "probit_regression", "gaussian_mixture")
"""Kinds with several blocks, whose order may be drawn; the others have one."""
BOUNDED = ("logistic_regression", "probit_regression")
"""Kinds with lower bounds."""
SLOW = {(name, kind) for name in ("mh", "mala", "flymc", "explicit-flymc") for kind in KINDS} - {
    ("flymc", "logistic_regression"),
    ("explicit-flymc", "probit_regression"),
    ("mh", "logistic_regression"),
    ("mala", "logistic_regression"),
    ("mala", "linear_regression"),
} | {("random-gibbs", "gaussian_mixture")}
CELLS = [
    pytest.param(name, kind, id=f"{name}-{kind}", marks=[pytest.mark.long] if (name, kind) in SLOW else [])
    for kind in KINDS
    for name in ("mh", "mala", "gibbs", "random-gibbs", "flymc", "explicit-flymc")
    if name != "random-gibbs" or kind in LATENT
    if "flymc" not in name or kind in BOUNDED
]


@pytest.mark.parametrize(("name", "kind"), CELLS)
def test_exact_kernels_keep_the_joint_distribution(name: str, kind: str) -> None:
    made = world(kind)
    assert np.abs(z_scores(made, kernel(name, made), 4000, seed=1)).max() < 5.5


@pytest.mark.parametrize(("name", "kind"), [("mala", "logistic_regression"), ("gibbs", "poisson")])
def test_a_prior_that_counts_twice_is_found(name: str, kind: str) -> None:
    made = world(kind)
    assert np.abs(z_scores(made, kernel(name, made), 4000, seed=2, share=2.0)).max() > 10


def _without_hastings(made: World) -> Kernel:
    """A mutant: Langevin proposals that are accepted as if they were symmetric."""
    deviations = made.target.sample_prior(np.random.default_rng(1), 4000).std(axis=0)
    by = preconditioning.Preconditioner(deviations**2, deviations)

    class Langevin:
        def __init__(self, density: Density) -> None:
            self.density = density

        def propose(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            gradient = self.density.gradient(theta[None])[0]
            return sgld.step(theta, gradient, rng.standard_normal(len(theta)), 0.35, by)

        def log_ratio(self, theta: np.ndarray, proposed: np.ndarray) -> float:
            return 0.0

    def move(density: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return mh.steps(density, mh.init(density, theta), rng, 3, Langevin(density))[0].position

    return move


def test_proposals_without_the_hastings_ratio_are_found() -> None:
    made = world("logistic_regression")
    assert np.abs(z_scores(made, _without_hastings(made), 4000, seed=3)).max() > 10


def _sgld(allowed: float) -> Kernel:
    """Forget where theta was but for the start: many steps, so that the chain is where its bias leads it."""

    def move(density: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        found = mode.find(density)
        made = tuning.tuned(density, found, "sgld", np.random.default_rng(1), allowed, minibatch=density.n)
        count = math.ceil(2 / made.dynamics.schedule.size)
        return sgld.steps(made.dynamics, sgld.init(theta), rng, count)[0].position

    return move


def test_a_biased_kernel_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bias: 0.5` allows variances that are half as large again, and the test sees it."""
    monkeypatch.setattr(bias, "DRAWS", 4)  # the noise of a few events is measured for every data set
    assert np.abs(z_scores(world("logistic_regression"), _sgld(0.5), 4000, seed=4)).max() > 5.5


def _exponential_of_an_estimate(made: World) -> Kernel:
    """A mutant: Metropolis by the exponential of an unbiased estimate of the log likelihood, which is biased."""
    cov = np.cov(made.target.sample_prior(np.random.default_rng(1), 4000).T)
    proposal = mh.RandomWalk(1.2 / math.sqrt(len(cov)), np.linalg.cholesky(cov))

    def move(density: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        for _ in range(4):
            proposed = proposal.propose(theta, rng)
            batch = Random(density.n, 1).indices(rng, 0, 1)[0]
            logs = density.target.log_likelihood(np.stack([theta, proposed]), density.rows[batch]).sum(axis=1)
            logs = logs * density.n + density.target.log_prior(np.stack([theta, proposed]))
            if math.log1p(-rng.random()) < logs[1] - logs[0]:
                theta = proposed
        return theta

    return move


def test_metropolis_by_an_estimate_of_the_log_likelihood_is_found() -> None:
    made = world("logistic_regression")
    assert np.abs(z_scores(made, _exponential_of_an_estimate(made), 4000, seed=5)).max() > 5.5
