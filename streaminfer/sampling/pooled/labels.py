"""The components of a mixture in the same order in all draws.

If the prior does not tell components apart, neither does the posterior: a chain may have them in any order, and change
it on its way. For what is published each draw's components are matched to those of a reference. Chains never are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families.special import linear_assignment
from streaminfer.models.model import Matrix
from streaminfer.models.targets.target import Parameters

_NUMBERS: Final = 1 << 20
"""Distances that are held at once."""


def matched(target: Any, draws: Mapping[str, NDArray[np.float64]], reference: Mapping[str, Any]) -> Parameters:
    """Draws of parameters (n, ...) with their components in the order of the reference, one draw's parameters (...).

    Unchanged unless the target says that its components are exchangeable.
    """
    if not getattr(target, "is_exchangeable", False):
        return dict(draws)
    order = orders(draws["means"], np.asarray(reference["means"]), within(reference))
    rows = np.arange(len(order))[:, None]
    return {name: np.asarray(values[rows, order], dtype=np.float64) for name, values in draws.items()}


def orders(means: NDArray[np.float64], reference: Matrix, cov: Matrix) -> NDArray[np.intp]:
    """Which component of each draw, by its mean (n, K, d), takes each place of the reference (K, d): (n, K).

    The sum of squared distances, in units of `cov` (d, d), is the least that a permutation can have.
    """
    factor = matrices.cholesky(cov)
    centre = reference.mean(axis=0)
    n, k, d = means.shape
    goal = matrices.solve_lower(factor, (reference - centre).T).T
    found = np.empty((n, k), dtype=np.intp)
    step = max(1, _NUMBERS // (k * max(k, d)))
    for begin in range(0, n, step):
        part = (means[begin : begin + step] - centre).reshape(-1, d)
        white = matrices.solve_lower(factor, part.T).T.reshape(-1, k, d)
        # without the squares of the reference's places, which all permutations have
        costs = (white * white).sum(axis=-1)[:, None, :] - 2 * np.matmul(goal, white.swapaxes(1, 2))
        nearest = costs.argmin(axis=-1)
        found[begin : begin + step] = nearest
        several = (np.sort(nearest, axis=-1) != np.arange(k)).any(axis=-1)
        for i in np.flatnonzero(several):
            found[begin + i] = linear_assignment(costs[i])
    return found


def within(reference: Mapping[str, Any]) -> Matrix:
    """The mean covariance of the components, by their weights: nothing depends on the units of the fields."""
    return np.asarray(np.tensordot(reference["weights"], reference["covs"], axes=1), dtype=np.float64)
