"""How well draws predict events: log mean_s p(x | theta_s) of each event x."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import averages, parts

_LOWEST: Final = -1e290
"""What an event counts at least in a sum, which would else be minus infinity for good."""


def log_predictive(target: Any, theta: Matrix, rows: Matrix) -> Vector:
    """The log of the mean density over draws theta (k, d) of each row (n, columns) -> (n,), block by block."""
    found, k = np.empty(len(rows)), len(theta)
    # a density of Gaussians holds a number for each draw, row, component and column
    held = k * max(1, -(-target.dimension // target.columns))
    for each in parts.slices(rows, held):
        with np.errstate(over="ignore", under="ignore"):
            logs = target.log_likelihood(theta, rows[each])
            found[each] = averages.log_mean_exp(logs)
    return found


def total(target: Any, theta: Matrix, rows: Matrix) -> float:
    """The sum over all rows: the score of draws that have not seen them. Always finite."""
    return float(np.maximum(log_predictive(target, theta, rows), _LOWEST).sum())
