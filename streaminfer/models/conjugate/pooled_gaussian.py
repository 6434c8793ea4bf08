"""Evidence of rows of Gaussian events as a function of the prior, and the prior that maximises it (Murphy 2007)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import psi
from streaminfer.models import pooling, priors
from streaminfer.models.conjugate import roots
from streaminfer.models.conjugate.centred import ROUNDED, Rows
from streaminfer.models.model import Vector
from streaminfer.models.predictive import log_rising


class Prior(NamedTuple):
    """Normal-inverse-Wishart with a diagonal scale: mean (d,), kappa, dof, scale (d,)."""

    mean: Vector
    kappa: float
    dof: float
    scale: Vector


class _Fit(NamedTuple):
    """For each row, S = scale + scatter + c a a' with a = xbar - mean and c = kappa n / (kappa + n) (section 8.3).

    inverse = R^-1 (k, d, d), R'R = scale + scatter; turned = R^-T a (k, d); square = c |turned|^2 (k,);
    log_det = log|S| - log|scale| (k,).
    """

    inverse: NDArray[np.float64]
    turned: NDArray[np.float64]
    square: Vector
    log_det: Vector


def log_evidences(rows: Rows, prior: Prior) -> Vector:
    """A(posterior) - A(prior) - n d/2 log 2 pi of each row."""
    return _evidences(rows, prior, _fit(rows, prior))


def log_evidences_and_gradient(rows: Rows, prior: Prior) -> tuple[Vector, Prior]:
    """The log evidences (k,), and the derivatives of their sum by each number of the prior."""
    n, (_, kappa, dof, scale) = rows.n, prior
    fit = _fit(rows, prior)
    # W = S^-1 by Sherman & Morrison: W a = (R'R)^-1 a / (1 + c a'(R'R)^-1 a).
    left = (fit.inverse @ fit.turned[:, :, None])[:, :, 0]
    pull = kappa * n / (kappa + n)
    by_mean = ((dof + n) * pull / (1 + fit.square))[:, None] * left
    diagonal = (fit.inverse**2).sum(axis=2) - (pull / (1 + fit.square))[:, None] * left**2
    distance = (fit.turned**2).sum(axis=1) / (1 + fit.square)
    d = len(scale)
    by_kappa = 0.5 * d * n / (kappa * (kappa + n)) - 0.5 * (dof + n) * (n / (kappa + n)) ** 2 * distance
    halves = 0.5 * (dof - np.arange(d))
    by_dof = 0.5 * ((psi(halves + 0.5 * n[:, None]) - psi(halves)).sum(axis=1) - fit.log_det)
    by_scale = 0.5 * dof / scale - 0.5 * (dof + n)[:, None] * diagonal
    gradient = Prior(by_mean.sum(axis=0), float(by_kappa.sum()), float(by_dof.sum()), by_scale.sum(axis=0))
    return _evidences(rows, prior, fit), gradient


def maximum(blocks: list[Rows], own: Prior) -> Prior:
    """The prior with the largest evidence of all rows, which all have events.

    Searched as (mean in sds of the events around their mean, log kappa, log(dof - d + 1), log(scale / (dof - d + 1))).
    The search begins at the own prior, or at within- and between-row variances if these are better.
    """
    k, d = sum(len(rows.n) for rows in blocks), len(own.mean)
    centre, within, between = _variances(blocks, own)
    unit = np.sqrt(within + between)

    def prior_at(place: Vector) -> Prior:
        kappa, spare, *variances = np.exp(place[d:]).tolist()
        return Prior(centre + unit * place[:d], kappa, spare + d - 1, spare * np.array(variances))

    def total(place: Vector) -> tuple[float, Vector]:
        prior, value, slopes = prior_at(place), 0.0, np.zeros(len(place))
        for rows in blocks:
            evidences, (by_mean, by_kappa, by_dof, by_scale) = log_evidences_and_gradient(rows, prior)
            by_log = prior.scale * by_scale
            by_spare = (prior.dof - d + 1) * by_dof + by_log.sum()
            value += float(evidences.sum())
            slopes += np.concatenate([unit * by_mean, [prior.kappa * by_kappa, by_spare], by_log])
        return value / k, slopes / k

    spare = own.dof - d + 1
    plain = np.concatenate([np.zeros(d), [np.log(within / between).mean(), math.log(10)], np.log(within)])
    start = np.concatenate([(own.mean - centre) / unit, np.log([own.kappa, spare]), np.log(own.scale / spare)])
    means = (np.concatenate([rows.mean for rows in blocks]) - centre) / unit
    ranges = pooling.Bounds(means.min(axis=0), means.max(axis=0))
    return prior_at(pooling.maximise(total, [start, plain], pooling.joined(ranges, _strengths(blocks, within, own))))


def _strengths(blocks: list[Rows], within: Vector, own: Prior) -> pooling.Bounds:
    """Bounds of kappa, the spare degrees of freedom and the variances (d,).

    If no key has two events, nothing tells the variance inside the rows from the one between them. kappa is then 1:
    with it an interval of a mean holds what it says for any ratio of these variances.
    """
    n, d = np.concatenate([rows.n for rows in blocks]), len(within)
    spare = np.clip(n - 1, 0, None)
    kappa = pooling.strongest(n, d * spare / n, 1.0)
    least = 1 / pooling.WIDEST if spare.sum() >= 2 else 1.0
    dof_least, dof_most, lowest, highest = pooling.variances(spare, float(n.sum()), within)
    lowest = np.where(within == _variance(own), within / (own.dof + n.sum()), lowest)
    return pooling.bounds(np.concatenate([[least, dof_least], lowest]), np.concatenate([[kappa, dof_most], highest]))


def _variance(prior: Prior) -> Vector:
    return prior.scale / (prior.dof - len(prior.mean) + 1)


def _variances(blocks: list[Rows], own: Prior) -> tuple[Vector, Vector, Vector]:
    """Mean of all events, mean variance inside the rows and variance of the rows' means, (d,) each.

    If no row has two events, half of what the rows differ by stands for the variance inside. If no event differs from
    another, it is the own prior's variance.
    """
    n = sum(float(rows.n.sum()) for rows in blocks)
    spare = sum(float(np.clip(rows.n - 1, 0, None).sum()) for rows in blocks)
    centre = sum((rows.n[:, None] / n * rows.mean).sum(axis=0) for rows in blocks)
    within = sum(rows.scatter.diagonal(axis1=1, axis2=2).sum(axis=0) for rows in blocks)
    between = sum((rows.n[:, None] / n * (rows.mean - centre) ** 2).sum(axis=0) for rows in blocks)
    within = within / spare if spare >= 2 else (within + n * between) / max(1.0, n - 1) / 2
    within = np.where(within > (ROUNDED * centre) ** 2, within, _variance(own))
    return centre, np.array(priors.positives(within)), np.array(priors.positives(between))


def _fit(rows: Rows, prior: Prior) -> _Fit:
    d = len(prior.mean)
    sizes = np.sqrt(prior.scale)
    # In units of the prior's sds, so that the determinant is that of the ratio to the scale.
    stacked = np.concatenate([rows.root / sizes, np.broadcast_to(np.eye(d), rows.root.shape)], axis=1)
    upper = roots.triangle(stacked)
    inverse = np.linalg.inv(upper)
    away = (rows.mean - prior.mean) + rows.rest
    turned = (inverse.swapaxes(1, 2) @ (away / sizes)[:, :, None])[:, :, 0]
    square = prior.kappa * (rows.n / (prior.kappa + rows.n)) * (turned**2).sum(axis=1)
    log_det = 2 * np.log(upper.diagonal(axis1=1, axis2=2)).sum(axis=1) + np.log1p(square)
    return _Fit(inverse / sizes[:, None], turned, square, log_det)


def _evidences(rows: Rows, prior: Prior, fit: _Fit) -> Vector:
    n, (_, kappa, dof, scale) = rows.n, prior
    d = len(scale)
    gammas = sum(log_rising(0.5 * (dof - j), 0.5 * n) for j in range(d))
    log_scale = float(np.log(scale).sum())
    evidences: Vector = (
        gammas
        - 0.5 * (dof + n) * fit.log_det
        - 0.5 * n * (log_scale + d * math.log(math.pi))
        - 0.5 * d * np.log1p(n / kappa)
    )
    return evidences
