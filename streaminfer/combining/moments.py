"""Means, covariances and precisions of parts, and products of Gaussians."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from streaminfer.combining.part import Gaussian, Moments, Part, Refused
from streaminfer.families import matrices
from streaminfer.models.model import Matrix, Vector

_ROWS: Final = 4096
"""Draws that are centred at once: a copy of all of them would double the memory."""


def of_parts(parts: Sequence[Part]) -> tuple[Moments, ...]:
    """The moments of every part; raises Refused at the first that has none that can be used."""
    if not parts:
        raise Refused("there are no draws to combine")
    d = parts[0].values.shape[-1]
    found = []
    for j, part in enumerate(parts):
        reason = _misshapen(part, d)
        if reason is None:
            moments = of(part)
            reason = _unusable(moments)
        if reason is not None:
            raise Refused(reason, j)
        found.append(moments)
    return tuple(found)


def fault(part: Part, d: int) -> str | None:
    """Why the draws of a part cannot be combined with others of d numbers; None if they can."""
    return _misshapen(part, d) or _unusable(of(part))


def of(part: Part) -> Moments:
    """Mean and unbiased covariance, in one pass over the draws.

    Sums are around the mean of the first rows, near which all others are, so that little is lost to cancellation.
    """
    values, weights = part.values, part.weights
    n, d = values.shape
    centre = values[:_ROWS].mean(axis=0)
    shift, squares, total, total_squares = np.zeros(d), np.zeros((d, d)), 0.0, 0.0
    for begin in range(0, n, _ROWS):
        around = values[begin : begin + _ROWS] - centre
        if weights is None:
            shift += around.sum(axis=0)
            squares += around.T @ around
        else:
            w = weights[begin : begin + _ROWS]
            total, total_squares = total + float(w.sum()), total_squares + float(w @ w)
            shift += w @ around
            squares += (w[:, None] * around).T @ around
    if weights is None:
        total, total_squares = float(n), float(n)
    shift /= total
    # sum w (x - m)(x - m)' / (1 - sum w^2) for weights that sum to 1: 1 / (n - 1) if they are equal
    cov = (squares / total - np.outer(shift, shift)) / (1 - total_squares / total**2)
    return Moments(centre + shift, cov, n, part.effective)


def precision(moments: Moments, is_corrected: bool) -> Matrix:
    """The inverse covariance (d, d), without the bias that inverting a sample covariance of T draws has.

    E S^-1 = (T - 1) / (T - d - 2) Sigma^-1 for Gaussian draws (the inverse Wishart's mean); correlated draws count as
    the number that they are worth.
    """
    t, d = min(moments.effective, moments.n), len(moments.mean)
    factor = (t - d - 2) / (t - 1) if is_corrected else 1.0
    return factor * inverse(moments.cov)


def inverse(matrix: Matrix) -> Matrix:
    """The inverse of a positive definite matrix, whatever the units of its coordinates."""
    units = np.sqrt(np.diag(matrix))
    scale = np.outer(units, units)
    return np.asarray(matrices.inverse(matrices.cholesky(matrix / scale)) / scale, dtype=np.float64)


def root(matrix: Matrix) -> Matrix:
    """The lower L with L L' = `matrix`, whatever the units of its coordinates."""
    units = np.sqrt(np.diag(matrix))
    return units[:, None] * matrices.cholesky(matrix / np.outer(units, units))


def product(gaussians: Iterable[tuple[Vector, Matrix]]) -> Gaussian:
    """The product of Gaussians, of each the mean and the precision: precisions add up."""
    means, precisions = zip(*gaussians, strict=True)
    cov = inverse(np.sum(precisions, axis=0))
    return Gaussian(cov @ np.sum([p @ m for m, p in zip(means, precisions, strict=True)], axis=0), cov)


def draw(gaussian: Gaussian, n: int, rng: np.random.Generator) -> Matrix:
    """Draws (n, d) of a Gaussian."""
    normal = rng.standard_normal((n, len(gaussian.mean)))
    return np.asarray(gaussian.mean + normal @ root(gaussian.cov).T, dtype=np.float64)


def log_density(values: Matrix, gaussian: Gaussian) -> Vector:
    """log N(x | mean, cov) of rows (n, d), without the constant of d: (n,)."""
    factor = root(gaussian.cov)
    white = matrices.solve_lower(factor, (values - gaussian.mean).T)
    return np.asarray(-0.5 * (white * white).sum(axis=0) - np.log(np.diag(factor)).sum(), dtype=np.float64)


def _misshapen(part: Part, d: int) -> str | None:
    values, weights = part.values, part.weights
    if values.ndim != 2 or values.shape[1] != d or d == 0:
        return f"draws have the shape {values.shape}, and those of the first subposterior have {d} numbers each"
    if not part.effective > d + 2:
        return f"{part.effective:.4g} effective draws of {d} numbers are too few: there must be more than {d + 2}"
    if len(values) <= d + 2:
        return f"{len(values)} draws of {d} numbers are too few: there must be more than {d + 2}"
    if weights is not None:
        if weights.shape != (len(values),):
            return f"{len(values)} draws have weights of the shape {weights.shape}"
        if not (np.isfinite(weights).all() and (weights >= 0).all() and np.count_nonzero(weights) > d + 2):
            return "weights must be finite and not below 0, and more than d + 2 of them above it"
    return None


def _unusable(moments: Moments) -> str | None:
    """NaN and infinity of a single draw show in the moments, which saves a pass over all of them."""
    if not (np.isfinite(moments.mean).all() and np.isfinite(moments.cov).all()):
        return "draws are not finite, or too large to be squared"
    units = np.sqrt(np.maximum(np.diag(moments.cov), 0.0))
    if not (units > 1e-13 * np.abs(moments.mean)).all():
        return f"the covariance is singular: coordinate {int(units.argmin())} does not move"
    if matrices.is_singular(moments.cov):
        return "the covariance is singular: the draws lie in fewer dimensions than they have numbers"
    return None
