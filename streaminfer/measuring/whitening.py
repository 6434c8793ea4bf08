"""A scale on which the posterior that is judged has mean 0 and covariance I: theta = mean + L u.

A score by theta times L is the score by u. So distances and scores are in posterior deviations, in any units.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streaminfer.combining import moments
from streaminfer.families import matrices
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.model import Matrix, Vector

MOST: Final = 200
"""The most coordinates that are judged together."""


class Whitening(NamedTuple):
    """mean (d,) and the lower L (d, d) of theta = mean + L u."""

    mean: Vector
    root: Matrix

    @property
    def sd(self) -> Vector:
        """The deviation of each coordinate of theta, (d,)."""
        return np.asarray(np.sqrt((self.root**2).sum(axis=1)), dtype=np.float64)

    def points(self, theta: Matrix) -> Matrix:
        """u of each theta (n, d)."""
        return matrices.solve_lower(self.root, np.ascontiguousarray((theta - self.mean).T)).T

    def scores(self, scores: Matrix) -> Matrix:
        """Gradients by u, of gradients by theta (..., d)."""
        return np.asarray(scores @ self.root, dtype=np.float64)

    def theta(self, points: Matrix) -> Matrix:
        """theta of each u (n, d)."""
        return np.asarray(self.mean + points @ self.root.T, dtype=np.float64)


def of_moments(mean: Vector, cov: Matrix) -> Whitening:
    """By a mean (d,) and a covariance (d, d); raises Unknowable if that is singular."""
    mean, cov = np.asarray(mean, dtype=np.float64), np.asarray(cov, dtype=np.float64)
    d = len(mean)
    if not 1 <= d <= MOST:
        raise Unknowable(f"There are {d} coordinates, and only 1 to {MOST} can be judged together.")
    if cov.shape != (d, d) or not (np.isfinite(mean).all() and np.isfinite(cov).all()):
        raise Unknowable("The mean or the covariance of the posterior is not finite.")
    units = np.sqrt(np.maximum(np.diag(cov), 0.0))
    still = ~(units > 1e-13 * np.abs(mean))
    if still.any():
        raise Unknowable(f"Coordinate {int(still.argmax())} of the posterior does not move.")
    cov = 0.5 * cov + 0.5 * cov.T
    if matrices.is_singular(cov):
        raise Unknowable("The covariance of the posterior is singular.", "Leave out features that depend on others.")
    return Whitening(mean, moments.root(cov))


def of_draws(theta: Matrix, weights: Vector | None = None) -> Whitening:
    """By the moments of draws (n, d), each of which counts by its weight (n,)."""
    theta, shares = checked(theta, weights)
    mean = shares @ theta
    around = theta - mean
    return of_moments(mean, (shares[:, None] * around).T @ around / (1 - shares @ shares))


def scored(
    theta: Matrix, scores: Matrix, weights: Vector | None = None, least: int = 1
) -> tuple[Matrix, Matrix, Vector]:
    """Draws and weights as of `checked`, and the scores (n, d) of the draws."""
    theta, shares = checked(theta, weights, least)
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != theta.shape or not np.isfinite(scores).all():
        raise Unknowable("Scores must be finite, with a row for each draw.")
    return theta, scores, shares


def checked(theta: Matrix, weights: Vector | None = None, least: int = 2) -> tuple[Matrix, Vector]:
    """Draws (n, d) as numbers, and weights (n,) that sum to 1; raises Unknowable if there are fewer than `least`."""
    theta = np.asarray(theta, dtype=np.float64)
    if theta.ndim != 2 or len(theta) < least:
        raise Unknowable(f"There are {len(theta)} draws, and {least} are needed.", "Wait for more draws.")
    if not np.isfinite(theta).all():
        raise Unknowable("Draws are not finite.")
    shares = np.ones(len(theta)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(theta),) or not (np.isfinite(shares).all() and (shares >= 0).all()):
        raise Unknowable("Weights of draws must be finite and not below 0, one for each draw.")
    if np.count_nonzero(shares) < least:
        raise Unknowable(f"Fewer than {least} draws have a weight above 0.", "Wait for more draws.")
    return theta, shares / shares.sum()
