"""Importance resampling (Huang and Gelman 2005): a subposterior's draws, weighed by what all the others say of them.

A draw of subposterior j has the density f_j, so that its weight for the posterior is the product of the other f_k.
Those are normal approximations; f_j itself is not. Weights are uneven if subposteriors are many or disagree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.part import Combined, Gaussian, Moments, Options, Part, Refused, none_missing
from streaminfer.combining.picking import effective, normalised, systematic, wanted
from streaminfer.models.model import Vector


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Pooled draws, resampled. Each part's draws count as many as they are worth after weighing."""
    none_missing(options, "resampling")
    found = moments.of_parts(parts)
    precisions = [moments.precision(m, options.is_corrected) for m in found]
    whole = moments.product((m.mean, p) for m, p in zip(found, precisions, strict=True))
    weights = [_weights(part, m, p, whole) for part, m, p in zip(parts, found, precisions, strict=True)]
    worth = np.array([effective(w) for w in weights])
    if not worth.sum() > len(whole.mean) + 2:
        raise Refused(f"importance weights leave {worth.sum():.1f} effective draws: take another combiner")
    shares = [w * worth_j / worth.sum() for w, worth_j in zip(weights, worth, strict=True)]
    mean = np.sum([w @ part.values for w, part in zip(shares, parts, strict=True)], axis=0)
    cov = np.zeros((len(mean), len(mean)))
    for w, part in zip(shares, parts, strict=True):
        around = part.values - mean
        cov += (w[:, None] * around).T @ around
    n = wanted(parts, options.n)
    chosen = rng.permutation(systematic(np.concatenate(shares), n, rng))
    ends = np.cumsum([len(part.values) for part in parts])
    owner = np.searchsorted(ends, chosen, side="right")
    draws = np.empty((n, len(mean)))
    for j, part in enumerate(parts):
        mine = owner == j
        draws[mine] = part.values[chosen[mine] - (ends[j] - len(part.values))]
    return Combined(draws, mean, cov, found, {"effective": float(worth.sum())})


def _weights(part: Part, own: Moments, precision: np.ndarray, whole: Gaussian) -> Vector:
    """The product of the other normals at the draws of a part: that of all over its own, times the draws' weights."""
    own_normal = Gaussian(own.mean, moments.inverse(precision))
    log_weights = moments.log_density(part.values, whole) - moments.log_density(part.values, own_normal)
    if part.weights is not None:
        log_weights = log_weights + np.log(np.maximum(part.weights, 1e-300))
    return normalised(log_weights)
