"""Geweke's joint test ("getting it right", 2004): a sampler that alternates with drawing the data keeps the prior.

(theta, data) has one joint distribution. Draws of theta from the prior have its marginal. So has a chain that draws
data given theta and then moves theta by a kernel that keeps the posterior given these data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streaminfer.models.targets.density import Density
from tests.sampling.simulating import World

Kernel = Callable[[Density, np.ndarray, np.random.Generator], np.ndarray]
"""Moves theta (d,) given data."""
BATCHES = 200
PRIOR_DRAWS = 40_000


def z_scores(world: World, kernel: Kernel, sweeps: int, seed: int, share: float = 1.0) -> np.ndarray:
    """Of means and squares of each coordinate and of neighbours' products, by batch means; (3 d,).

    A share other than 1 is a planted mistake: the prior counts that often.
    """
    rng = np.random.default_rng(seed)
    prior = world.target.sample_prior(rng, PRIOR_DRAWS)
    centre, width = prior.mean(axis=0), prior.std(axis=0)
    theta, chain = world.target.sample_prior(rng, 1)[0], np.empty((sweeps, world.target.dimension))
    for t in range(sweeps):
        parameters = {name: value[0] for name, value in world.target.constrain(theta[None]).items()}
        theta = kernel(Density(world.target, world.simulate(rng, parameters), share), theta, rng)
        chain[t] = theta
    expected, found = (_functions((each - centre) / width) for each in (prior, chain))
    batches = found.reshape(BATCHES, -1, found.shape[1]).mean(axis=1)
    error = np.sqrt(batches.var(axis=0, ddof=1) / BATCHES + expected.var(axis=0) / PRIOR_DRAWS)
    z: np.ndarray = (batches.mean(axis=0) - expected.mean(axis=0)) / error
    return z


def _functions(theta: np.ndarray) -> np.ndarray:
    """Bounded, so that a heavy tail of a prior does not hide everything else."""
    bounded = np.tanh(0.7 * theta)
    return np.hstack([bounded, bounded**2, bounded * np.roll(bounded, 1, axis=1)])
