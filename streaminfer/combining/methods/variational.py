"""Variational consensus Monte Carlo (Rabinovich, Angelino and Jordan 2015): averages whose weights are optimised.

theta = sum_j W_j theta_j maximises E log p(theta) + (1/J) sum_j log det W_j. The second term is their lower bound of
the entropy, up to a constant: that of a sum is at least that of each of its parts. Weights are positive semidefinite
and sum to the identity, in coordinates in which the Gaussian product has unit covariance: there the full weights of
`average`, from which the search starts, are symmetric too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import moments
from streaminfer.combining.methods import average
from streaminfer.combining.part import Combined, Gaussian, Gradients, Options, Part, Refused, none_missing
from streaminfer.combining.picking import at_most

_RATE: Final = 0.05
"""How far a step moves a weight, as a part of 1/J, by the root of the mean square of its gradients (AdaGrad)."""
_LEAST: Final = 1e-3
"""The least eigenvalue of a weight, as a part of 1/J: the entropy falls without bound towards 0."""

Weights = NDArray[np.float64]


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Averages with the weights that stochastic gradients find, averaged over the last half of the steps."""
    none_missing(options, "variational")
    if options.gradient is None:
        raise Refused("variational needs the gradient of the posterior's log density")
    found = moments.of_parts(parts)
    precisions = average.precisions_of(found, replace(options, weights="full"))
    whole = moments.product((m.mean, p) for m, p in zip(found, precisions, strict=True))
    root = moments.root(whole.cov)
    draws = [at_most(part, max(options.components, 10 * options.minibatch), rng) for part in parts]
    first = feasible(root.T @ precisions @ root, 0.0)
    weights = _optimised(first, draws, whole, root, options.gradient, rng, options)
    back = root @ weights @ np.linalg.inv(root)
    return average.averaged(parts, found, back, rng, options)


def _optimised(
    weights: Weights, draws: Sequence[NDArray[np.float64]], whole: Gaussian, root: NDArray[np.float64],
    gradient: Gradients, rng: np.random.Generator, options: Options,
) -> Weights:  # fmt: skip
    """Projected stochastic gradient ascent; weights (J, d, d) are of whitened coordinates."""
    j, inverse = len(weights), np.linalg.inv(root).T
    squares, total, count = 0.0, np.zeros_like(weights), 0
    for step in range(1, options.steps + 1):
        picked = [each[rng.integers(0, len(each), options.minibatch)] for each in draws]
        white = np.array([(rows - whole.mean) @ inverse for rows in picked])
        theta = whole.mean + np.einsum("jnk,jik->ni", white, weights, optimize=True) @ root.T
        slopes = np.asarray(gradient(theta), dtype=np.float64) @ root
        if slopes.shape != theta.shape or not np.isfinite(slopes).all():
            raise Refused("the gradient of the log density is not finite, or not of the shape of the parameters")
        ascent = np.einsum("ni,jnk->jik", slopes, white, optimize=True) / len(theta) + np.linalg.inv(weights) / j
        ascent = (ascent + ascent.transpose(0, 2, 1)) / 2
        ascent -= ascent.mean(axis=0)  # weights go on to sum to the identity
        squares += float((ascent**2).mean())
        weights = feasible(weights + _RATE / j / np.sqrt(squares / step) / np.sqrt(step) * ascent, _LEAST / j)
        if 2 * step > options.steps:
            total, count = total + weights, count + 1
    return np.asarray(total / count, dtype=np.float64)


def feasible(weights: Weights, least: float) -> Weights:
    """Positive semidefinite weights that sum to the identity: R W_j R with eigenvalues of W_j cut, R = (sum W)^-1/2."""
    values, vectors = np.linalg.eigh((weights + weights.transpose(0, 2, 1)) / 2)
    cut = (vectors * np.maximum(values, least)[:, None, :]) @ vectors.transpose(0, 2, 1)
    sums, axes = np.linalg.eigh(cut.sum(axis=0))
    scale = (axes / np.sqrt(sums)) @ axes.T
    return np.asarray(scale @ cut @ scale, dtype=np.float64)
