"""Parameters of every family for the checks that all families share; a new family needs a row here and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.families import (
    beta,
    diagonal_gaussian,
    dirichlet,
    gamma,
    gaussian,
    mixture,
    normal_inverse_gamma,
    normal_inverse_wishart,
)

PRECISION = np.array([[2.0, 0.6, -0.3], [0.6, 1.5, 0.2], [-0.3, 0.2, 0.9]])
OTHER = np.array([[1.2, -0.4, 0.1], [-0.4, 0.8, 0.0], [0.1, 0.0, 2.5]])

EXAMPLES: dict[str, list[Any]] = {
    "beta": [beta.Parameters(2.5, 4.0), beta.Parameters(0.7, 0.9), beta.Parameters(1.0, 1.0)],
    "diagonal-gaussian": [
        diagonal_gaussian.Parameters(np.array([1.0, -2.0, 0.5]), np.array([2.0, 1.5, 0.9])),
        diagonal_gaussian.Parameters(np.array([0.3, 1.0, -1.0]), np.array([1.2, 0.8, 2.5])),
    ],
    "dirichlet": [
        dirichlet.Parameters(np.array([2.0, 3.5, 1.2, 4.0])),
        dirichlet.Parameters(np.array([0.8, 1.5, 0.9, 2.0])),
    ],
    "dirichlet-normal-inverse-wishart": [
        mixture.Parameters(
            np.array([2.0, 3.5]),
            np.array([[0.5, -0.4], [1.0, 0.2]]),
            np.array([2.0, 0.7]),
            np.array([9.0, 7.5]),
            np.stack([3 * PRECISION[:2, :2], 4 * OTHER[:2, :2]]),
        ),
        mixture.Parameters(
            np.array([0.8, 1.5]),
            np.array([[0.1, 0.2], [-0.3, 0.6]]),
            np.array([3.0, 1.2]),
            np.array([12.5, 8.0]),
            np.stack([4 * OTHER[:2, :2], 2 * PRECISION[:2, :2]]),
        ),
    ],
    "gamma": [gamma.Parameters(3.0, 0.5), gamma.Parameters(0.8, 20.0)],
    "gaussian": [
        gaussian.Parameters(np.array([1.0, -2.0, 0.5]), PRECISION),
        gaussian.Parameters(np.array([0.3, 1.0, -1.0]), OTHER),
    ],
    "normal-inverse-gamma": [
        normal_inverse_gamma.Parameters(np.array([1.0, -0.5, 0.4]), np.linalg.cholesky(PRECISION), 6.0, 4.0),
        normal_inverse_gamma.Parameters(np.array([0.2, 0.7, -0.3]), np.linalg.cholesky(OTHER), 4.5, 5.5),
    ],
    "normal-inverse-wishart": [
        normal_inverse_wishart.Parameters(np.array([0.5, -0.4, 0.3]), 2.0, 9.0, 3 * PRECISION),
        normal_inverse_wishart.Parameters(np.array([0.1, 0.2, -0.3]), 3.0, 12.5, 4 * OTHER),
    ],
}
CASES = [(name, parameters) for name, rows in EXAMPLES.items() for parameters in rows]
IDS = [f"{name}-{i}" for name, rows in EXAMPLES.items() for i in range(len(rows))]
