"""Evidence of rows of regression events as a function of the prior, and the prior that maximises it.

An intercept is eliminated first; the means of the events are one more row of the least squares, added by Sherman &
Morrison (see `LinearRegression.posterior`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import psi
from streaminfer.models import pooling
from streaminfer.models.conjugate import roots
from streaminfer.models.conjugate.centred import ROUNDED, Rows
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.predictive import log_rising


class Prior(NamedTuple):
    """Normal-inverse-Gamma: mean and diagonal precision of the weights (intercept first), shape and rate."""

    mean: Vector
    precision: Vector
    shape: float
    rate: float


class _Fit(NamedTuple):
    """For each row, with D weights: change (k, D) of their mean, variances (k, D) in units of s2, log|P_n| - log|P|
    (k,), and rate (k,)."""

    change: NDArray[np.float64]
    variances: NDArray[np.float64]
    log_det: Vector
    rate: Vector


def log_evidences(rows: Rows, prior: Prior) -> Vector:
    """A(posterior) - A(prior) - n/2 log 2 pi of each row."""
    return _evidences(rows, prior, _fit(rows, prior))


def log_evidences_and_gradient(rows: Rows, prior: Prior) -> tuple[Vector, Prior]:
    """The log evidences (k,), and the derivatives of their sum by each number of the prior."""
    _, precision, shape, rate = prior
    fit, shapes = _fit(rows, prior), shape + 0.5 * rows.n
    inverse_variance = (shapes / fit.rate)[:, None]
    by_mean = inverse_variance * precision * fit.change
    by_precision = 0.5 * (1 / precision - fit.variances - inverse_variance * fit.change**2)
    by_shape = psi(shapes) - psi(shape) - np.log(fit.rate / rate)
    by_rate = shape / rate - shapes / fit.rate
    gradient = Prior(by_mean.sum(axis=0), by_precision.sum(axis=0), float(by_shape.sum()), float(by_rate.sum()))
    return _evidences(rows, prior, fit), gradient


def maximum(blocks: list[Rows], own: Prior, plain: Prior) -> Prior:
    """The prior with the largest evidence of all rows, which all have events.

    Searched as (mean from that of `plain` in its sds, log precision, log shape, log(rate / shape)). `plain` is an
    estimate from all events, worth one event; the search begins there or at the own prior.
    """
    k, size = sum(len(rows.n) for rows in blocks), len(own.mean)
    events = sum(float(rows.n.sum()) for rows in blocks)
    unit = np.sqrt(plain.rate / plain.shape / plain.precision)

    def prior_at(place: Vector) -> Prior:
        *precision, shape, variance = np.exp(place[size:]).tolist()
        return Prior(plain.mean + unit * place[:size], np.array(precision), shape, shape * variance)

    def place_of(prior: Prior) -> Vector:
        logs = np.log([*prior.precision, prior.shape, prior.rate / prior.shape])
        return np.append((prior.mean - plain.mean) / unit, logs)

    def total(place: Vector) -> tuple[float, Vector]:
        # No weight of a row is further from those of all events than the root of their number, in these units. Weights
        # that the events do not tell apart have a mean because of it.
        prior, away = prior_at(place), np.append(place[:size], np.zeros(size + 2)) / events
        value, slopes = -0.5 * float(place @ away), -away
        for rows in blocks:
            evidences, (by_mean, by_precision, by_shape, by_rate) = log_evidences_and_gradient(rows, prior)
            scalars = [prior.shape * by_shape + prior.rate * by_rate, prior.rate * by_rate]
            value += float(evidences.sum())
            slopes += np.concatenate([unit * by_mean, prior.precision * by_precision, scalars])
        return value / k, slopes / k

    free = pooling.Bounds(np.full(size, -np.inf), np.full(size, np.inf))
    return prior_at(
        pooling.maximise(total, [place_of(own), place_of(plain)], pooling.joined(free, _strengths(blocks, own, plain)))
    )


def _strengths(blocks: list[Rows], own: Prior, plain: Prior) -> pooling.Bounds:
    """Bounds of the precisions (D,), the shape and the noise variance.

    Without two events of a row beside its weights, nothing tells the noise from what the rows differ by: the precisions
    are then worth one event.
    """
    n, size = np.concatenate([rows.n for rows in blocks]), len(plain.mean)
    spare = np.clip(n - size, 0, None)
    known = spare.sum() >= 2

    def strongest(sizes: Vector, one: float) -> float:
        return pooling.strongest(sizes, spare / n, one) if known else one

    ones = plain.precision.tolist()
    first = [strongest(n, ones[0])] if size == blocks[0].mean.shape[1] else []
    squares = np.concatenate([_squares(rows, first) for rows in blocks])
    precision = first + [strongest(*each) for each in zip(squares.T, ones[len(first) :], strict=True)]
    least = plain.precision / (pooling.WIDEST if known else 1.0)
    noise = _noise(blocks, spare, own, plain)
    return pooling.bounds(
        np.concatenate([least, [noise.least_dof / 2], noise.lowest]),
        np.concatenate([precision, [noise.most_dof / 2], noise.highest]),
    )


def _noise(blocks: list[Rows], spare: Vector, own: Prior, plain: Prior) -> pooling.Variances:
    """Bounds of the noise variance. If no row has any noise, the own prior with all events is the lowest."""
    size, events = len(plain.mean), sum(float(rows.n.sum()) for rows in blocks)
    if spare.sum() < 2:
        return pooling.variances(spare, events, np.array([plain.rate / plain.shape / (1 + size)]))
    left = sum(float(_left(rows, size).sum()) for rows in blocks)
    largest = max(float(np.abs(rows.mean[:, -1]).max()) for rows in blocks)
    if left / spare.sum() > (ROUNDED * largest) ** 2:
        return pooling.variances(spare, events, np.array([left / spare.sum()]))
    found = pooling.variances(spare, events, np.array([own.rate / own.shape]))
    return found._replace(lowest=np.array([own.rate / (own.shape + events / 2)]))


def _left(rows: Rows, size: int) -> Vector:
    """The sum of squares (k,) that least squares of each row on its own leaves."""
    means = (np.sqrt(rows.n)[:, None] * rows.mean)[:, None, :]
    data = rows.root if size == rows.mean.shape[1] else np.concatenate([rows.root, means], axis=1)
    left: Vector = roots.triangle(data)[:, -1, -1] ** 2
    return left


def _squares(rows: Rows, first: list[float]) -> Matrix:
    """What each row says of the weight of each feature on its own, (k, d), given the precision of an intercept."""
    kept = rows.n if not first else rows.n / (1 + rows.n / first[0])
    scatters = rows.scatter.diagonal(axis1=1, axis2=2)
    squares: Matrix = (scatters + kept[:, None] * rows.mean**2)[:, :-1]
    return squares


def _fit(rows: Rows, prior: Prior) -> _Fit:
    n, d = rows.n, rows.mean.shape[1] - 1
    has_intercept = len(prior.mean) > d
    mean, sizes = prior.mean[-d:], np.sqrt(prior.precision[-d:])
    # In units of the prior's sds: columns [F | g - F m], then the identity.
    data = rows.root / np.append(sizes, 1.0)
    data[:, :, -1] -= rows.root[:, :, :-1] @ mean
    upper = roots.triangle(np.concatenate([data, np.broadcast_to(np.eye(d, d + 1), (len(n), d, d + 1))], axis=1))
    inverse = np.linalg.inv(upper[:, :-1, :-1])
    first = (inverse @ upper[:, :-1, -1:])[:, :, 0]

    m0, p0 = (prior.mean[0], prior.precision[0]) if has_intercept else (0.0, math.inf)
    kept = n / (1 + n / p0)
    xbar = rows.mean[:, :-1] / sizes
    away = rows.mean[:, -1] - m0 - rows.mean[:, :-1] @ mean
    turned = (inverse.swapaxes(1, 2) @ xbar[:, :, None])[:, :, 0]
    square = kept * (turned**2).sum(axis=1)
    left = (inverse @ turned[:, :, None])[:, :, 0]
    offset = (away - (xbar * first).sum(axis=1)) / (1 + square)
    rate = prior.rate + 0.5 * upper[:, -1, -1] ** 2 + 0.5 * (np.sqrt(kept * (1 + square)) * offset) ** 2
    change = (first + (kept * offset)[:, None] * left) / sizes
    variances = ((inverse**2).sum(axis=2) - (kept / (1 + square))[:, None] * left**2) / sizes**2
    log_det = 2 * np.log(upper.diagonal(axis1=1, axis2=2)[:, :-1]).sum(axis=1) + np.log1p(square)
    if has_intercept:
        share = n / (n + p0)
        of_intercept = (1 + share * n * (turned**2).sum(axis=1) / (1 + square)) / (n + p0)
        change = np.column_stack([share * offset, change])
        variances = np.column_stack([of_intercept, variances])
        log_det += np.log1p(n / p0)
    return _Fit(change, variances, log_det, rate)


def _evidences(rows: Rows, prior: Prior, fit: _Fit) -> Vector:
    n, (_, _, shape, rate) = rows.n, prior
    squares = 0.5 * n * math.log(2 * math.pi) + 0.5 * n * np.log(fit.rate)
    evidences: Vector = log_rising(shape, 0.5 * n) - shape * np.log(fit.rate / rate) - squares - 0.5 * fit.log_det
    return evidences
