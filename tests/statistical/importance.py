"""The true posterior of a 0/1 regression by importance sampling: what an approximate one is measured against."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, special

FREEDOM = 50.0
_BLOCK = 500


def log_sigmoid(a: np.ndarray) -> np.ndarray:
    """By functions that numpy has vectorised: many times as fast as scipy's, and as exact in a sum."""
    return np.minimum(a, 0) - np.log(1 + np.exp(-np.abs(a)))


def hazard(a: np.ndarray) -> np.ndarray:
    """phi / Phi."""
    return np.exp(-0.5 * a**2 - special.log_ndtr(a)) / np.sqrt(2 * np.pi)


LOG_LIKELIHOOD = {
    "logistic_regression": (log_sigmoid, lambda a: special.expit(-a), lambda a: special.expit(a) * special.expit(-a)),
    "probit_regression": (special.log_ndtr, hazard, lambda a: hazard(a) * (hazard(a) + a)),
}
"""By kind: log f, its derivative and minus its second one."""


class Truth(NamedTuple):
    """Means and deviations (d,), the draws (n, d) and their weights (n,), how many draws those are worth, the mode."""

    mean: np.ndarray
    sd: np.ndarray
    draws: np.ndarray
    weights: np.ndarray
    worth: float
    mode: np.ndarray


class Distance(NamedTuple):
    """How far a posterior is from the truth: the worst weight in true deviations, the deviations' ratios to the true
    ones, and how much of the truth the worst of its 95% intervals holds."""

    shift: float
    narrowest: float
    widest: float
    coverage: float


def truth(model: Any, events: np.ndarray, draws: int = 4000, seed: int = 0) -> Truth:
    """From a multivariate t around the mode with the curvature there; draws come in pairs around it."""
    rows, signs = model.design(events)
    mode, factor = map_weights(model, events)
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((draws // 2, len(mode))) / np.sqrt(rng.chisquare(FREEDOM, (draws // 2, 1)) / FREEDOM)
    noise = np.vstack([noise, -noise])
    places = mode + linalg.solve_triangular(factor, noise.T, lower=True, trans=1).T
    log_f = LOG_LIKELIHOOD[model.kind][0]
    blocks = np.split(places, range(_BLOCK, draws, _BLOCK))
    levels = np.concatenate([log_f(block @ (signs[:, None] * rows).T).sum(axis=1) for block in blocks])
    levels -= 0.5 * ((places - model.prior.mean) ** 2 * model.prior.precision).sum(axis=1)
    levels += 0.5 * (FREEDOM + len(mode)) * np.log1p((noise**2).sum(axis=1) / FREEDOM)
    weights = special.softmax(levels)
    mean = weights @ places
    return Truth(mean, np.sqrt(weights @ (places - mean) ** 2), places, weights, 1 / (weights**2).sum(), mode)


def map_weights(model: Any, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode by Newton's method in units of the features, and the factor L of the precision L L' there."""
    rows, signs = model.design(events)
    log_f, slope, bend = LOG_LIKELIHOOD[model.kind]
    prior = model.prior

    def loss(w: np.ndarray) -> float:
        return float(-log_f(signs * (rows @ w)).sum() + 0.5 * (prior.precision * (w - prior.mean) ** 2).sum())

    w = prior.mean
    for _ in range(200):
        a = signs * (rows @ w)
        gradient = prior.precision * (w - prior.mean) - rows.T @ (signs * slope(a))
        curved = np.sqrt(bend(a))[:, None] * rows
        factor = np.linalg.qr(np.vstack([curved, np.diag(np.sqrt(prior.precision))]), mode="r").T
        half = linalg.solve_triangular(factor, gradient, lower=True)
        step = linalg.solve_triangular(factor, half, lower=True, trans=1)
        if half @ half < 1e-16:
            return w, factor
        length, before = 1.0, loss(w)
        while loss(w - length * step) > before - 1e-4 * length * float(half @ half) and length > 1e-12:
            length /= 2
        w = w - length * step
    raise AssertionError("Newton's method has not settled")


def distance(exact: Truth, moments: Any) -> Distance:
    """`moments` have a mean and an sd (d,)."""
    ends = moments.mean - 1.959964 * moments.sd, moments.mean + 1.959964 * moments.sd
    ratios = moments.sd / exact.sd
    return Distance(
        float(np.abs((moments.mean - exact.mean) / exact.sd).max()), float(ratios.min()), float(ratios.max()),
        float((exact.weights @ ((exact.draws > ends[0]) & (exact.draws < ends[1]))).min()),
    )  # fmt: skip
