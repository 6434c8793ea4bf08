"""Gaussian subposteriors that differ, draws with exactly their moments, and errors of moments."""

from __future__ import annotations

import numpy as np
from scipy import stats

from streaminfer.combining.part import Gaussian, Part


def exact(gaussian: Gaussian, n: int, rng: np.random.Generator) -> np.ndarray:
    """n draws whose mean and covariance are those of the Gaussian, not nearly."""
    rows = rng.standard_normal((n, len(gaussian.mean)))
    rows -= rows.mean(axis=0)
    white = rows @ np.linalg.inv(np.linalg.cholesky(np.cov(rows.T).reshape(2 * (len(gaussian.mean),)))).T
    return gaussian.mean + white @ np.linalg.cholesky(gaussian.cov).T


FALSE_ALARM = 1e-6
"""How often a test of random numbers may fail though all is right."""


def no_bias(runs: np.ndarray, right: np.ndarray) -> None:
    """The means over independent runs (R, k) are `right` (k,), up to what chance does once in a million tests."""
    n, k = runs.shape
    scores = (runs.mean(axis=0) - right) / (runs.std(axis=0, ddof=1) / np.sqrt(n))
    assert np.abs(scores).max() < stats.t.isf(FALSE_ALARM / (2 * k), n - 1), scores


def numbers(mean: np.ndarray, cov: np.ndarray, draws: np.ndarray | None = None) -> np.ndarray:
    """Mean and covariance as one vector; those of draws as well, if they are given."""
    upper = np.triu_indices(len(mean))
    own = [] if draws is None else [draws.mean(axis=0), np.atleast_2d(np.cov(draws.T))[upper]]
    return np.concatenate([mean, cov[upper], *own])


def part(values: np.ndarray, weights: np.ndarray | None = None, effective: float | None = None) -> Part:
    return Part(values, weights, len(values) if effective is None else effective)


def heterogeneous(j: int, d: int, rng: np.random.Generator) -> list[Gaussian]:
    """Means and covariances that have nothing in common."""
    found = []
    for _ in range(j):
        rows = rng.standard_normal((d, 2 * d))
        found.append(Gaussian(rng.standard_normal(d), rng.gamma(2.0) * rows @ rows.T / d))
    return found


def product(gaussians: list[Gaussian]) -> Gaussian:
    """What the posterior is, by plain inverses."""
    precisions = [np.linalg.inv(each.cov) for each in gaussians]
    cov = np.linalg.inv(sum(precisions))
    return Gaussian(cov @ sum(p @ each.mean for p, each in zip(precisions, gaussians, strict=True)), cov)
