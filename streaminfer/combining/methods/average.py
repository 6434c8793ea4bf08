"""Weighted averages of draws, one of each subposterior (Scott et al. 2016; Angelino, Johnson and Adams 2016).

theta_t = sum_j W_j theta_jt. Full weights are W_j = Sigma S_j^-1 with Sigma = (sum_j S_j^-1)^-1, exact for Gaussian
subposteriors. Angelino et al. add the prior's precision once more, though subposteriors have their share of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import moments
from streaminfer.combining.part import Combined, Gaussian, Moments, Options, Part
from streaminfer.combining.picking import picked, wanted
from streaminfer.models.model import Matrix


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Averages by `options.weights`: the mean is sum_j W_j mu_j, the covariance sum_j W_j S_j W_j'."""
    found = moments.of_parts(parts)
    return averaged(parts, found, matrices_of(found, options), rng, options)


def averaged(
    parts: Sequence[Part], found: Sequence[Moments], weights: NDArray[np.float64], rng: np.random.Generator,
    options: Options,
) -> Combined:  # fmt: skip
    """Draws averaged with weights (J, d, d), one part at a time."""
    n, known = wanted(parts, options.n), [*(Gaussian(m.mean, m.cov) for m in found), *options.missing]
    draws: Matrix = np.zeros((n, weights.shape[1]))
    for j, w in enumerate(weights):
        draws += (picked(parts[j], n, rng) if j < len(parts) else moments.draw(known[j], n, rng)) @ w.T
    mean = np.sum([w @ g.mean for w, g in zip(weights, known, strict=True)], axis=0)
    cov = np.sum([w @ g.cov @ w.T for w, g in zip(weights, known, strict=True)], axis=0)
    return Combined(draws, mean, cov, tuple(found), missing=tuple(options.missing))


def matrices_of(found: Sequence[Moments], options: Options) -> NDArray[np.float64]:
    """The weights (J, d, d), those of missing subposteriors last. They sum to the identity."""
    precisions = precisions_of(found, options)
    if options.weights == "equal":
        return np.broadcast_to(np.eye(precisions.shape[1]) / len(precisions), precisions.shape)
    return np.asarray(moments.inverse(precisions.sum(axis=0)) @ precisions, dtype=np.float64)


def precisions_of(found: Sequence[Moments], options: Options) -> NDArray[np.float64]:
    """Inverse covariances (J, d, d), or inverse variances on the diagonal. Prior shares are known, not estimated."""
    if options.weights == "diagonal":
        found = [m._replace(cov=np.diag(np.diag(m.cov))) for m in found]
    shares = [moments.inverse(_of_kind(each.cov, options)) for each in options.missing]
    return np.array([*(moments.precision(m, options.is_corrected) for m in found), *shares])


def _of_kind(cov: Matrix, options: Options) -> Matrix:
    return np.diag(np.diag(cov)) if options.weights == "diagonal" else cov
