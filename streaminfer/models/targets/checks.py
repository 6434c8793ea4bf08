"""Whether the gradient of a target is that of its densities: for classes of a user's own, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from streaminfer.models.model import Matrix, Vector

_STEP: Final = 1e-3
TOLERANCE: Final = 1e-5
"""Of differences, as a part of the largest gradient."""


def gradient_fault(target: Any, theta: Matrix, rows: Matrix) -> str | None:
    """What is wrong with the gradients at theta (k, d), or None; by differences of fourth order."""
    pairs: tuple[tuple[str, Callable[[Matrix], Vector], Matrix], ...] = (
        ("prior_gradient", target.log_prior, target.prior_gradient(theta)),
        ("gradient", lambda at: target.log_likelihood(at, rows).sum(axis=1), target.gradient(theta, rows)),
    )
    for name, function, given in pairs:
        if given.shape != theta.shape:
            return f"{name} has the shape {given.shape}, not {theta.shape}"
        expected = differences(function, theta)
        if not np.isfinite(given).all():
            return f"{name} is not finite at a draw from the prior"
        off = np.abs(given - expected) / (TOLERANCE * (1 + np.abs(expected).max(axis=1, keepdims=True)))
        if not (off <= 1).all():
            k, i = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
            return f"{name} has {given[k, i]:.6g} for parameter {i}, finite differences have {expected[k, i]:.6g}"
    return None


def differences(function: Callable[[Matrix], Vector], theta: Matrix) -> Matrix:
    """The gradient (k, d) of a function of theta (k, d) that returns (k,)."""
    found = np.empty(theta.shape)
    for i in range(theta.shape[1]):
        step = np.zeros(theta.shape)
        step[:, i] = _STEP * np.maximum(np.abs(theta[:, i]), 0.1)
        near = function(theta + step) - function(theta - step)
        far = function(theta + 2 * step) - function(theta - 2 * step)
        found[:, i] = (8 * near - far) / (12 * step[:, i])
    return found
