"""Many Normal-inverse-Wishart posteriors at once: the components of a mixture, without a loop over them.

Of each component the formulas are those of the model `gaussian`; the first axis of every array is the component.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.families.special import psi
from streaminfer.models.conjugate import centred, roots
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.predictive import log_student_t

_BLOCK: Final = 1 << 20
"""Numbers in an array over components, events and fields, which stays within a few megabytes."""

LEAST: Final = 1e-30
"""A smaller part of an event counts as none, so that counts keep their digits however they are scaled."""


class Components(NamedTuple):
    """Mean (K, d), kappa and dof (K,), scale (K, d, d), and the lower Cholesky factors of the scales."""

    mean: Matrix
    kappa: Vector
    dof: Vector
    scale: NDArray[np.float64]
    factor: NDArray[np.float64]

    def one(self, k: int) -> niw.Parameters:
        """Component k by itself."""
        return niw.Parameters(self.mean[k], float(self.kappa[k]), float(self.dof[k]), self.scale[k])


def moments(events: Matrix, shares: Matrix) -> Matrix:
    """Centred moments (K, size) of events (n, d), each counted in component k as often as `shares` (K, n) say."""
    shares = np.where(shares < LEAST, 0.0, shares)
    present = shares.any(axis=1)
    rows = np.zeros((len(shares), centred.size(events.shape[1])))
    rows[present] = centred.statistics(events, shares[present])
    return rows


def absorbed(rows: centred.Rows, prior: niw.Parameters) -> Components:
    """kappa + n, dof + n, scale + scatter + kappa n / (kappa + n) d d', d = xbar - mean (Murphy 2007, 8.3)."""
    k, d = rows.mean.shape
    kappa = prior.kappa + rows.n
    away = (rows.mean - prior.mean) + rows.rest
    shift = np.sqrt(prior.kappa * (rows.n / kappa))[:, None] * away
    mean = prior.mean + (rows.n / kappa)[:, None] * away
    own = np.broadcast_to(np.diag(np.sqrt(prior.scale.diagonal())), (k, d, d))
    factor = _absorb(roots.triangle(np.concatenate([rows.root, own], axis=1)), shift).swapaxes(1, 2)
    scale = prior.scale + rows.scatter + shift[:, :, None] * shift[:, None, :]
    return Components(mean, kappa, prior.dof + rows.n, scale, factor)


def expected_log_densities(components: Components, events: Matrix) -> Matrix:
    """E log N(x | mean_k, cov_k) of events (n, d), (K, n) (Bishop 2006, 10.64 and 10.65).

    (E log|precision| - d log 2 pi - d / kappa - dof (x - mean)' scale^-1 (x - mean)) / 2.
    """
    _, kappa, dof, _, factor = components
    d = factor.shape[1]
    log_precision = psi(0.5 * (dof[:, None] - np.arange(d))).sum(axis=1) + d * math.log(2) - log_determinants(factor)
    constant = log_precision - d * math.log(2 * math.pi) - d / kappa
    halves: Matrix = 0.5 * (constant[:, None] - dof[:, None] * squares(components, events))
    return halves


def log_predictives(components: Components, events: Matrix) -> Matrix:
    """log density of each component's Student t at events (n, d), (K, n)."""
    _, kappa, dof, _, factor = components
    d = factor.shape[1]
    nu = dof - d + 1
    widening = (kappa + 1) / (kappa * nu)
    log_dets = log_determinants(factor) + d * np.log(widening)
    distances = squares(components, events) / widening[:, None]
    each = zip(distances, nu.tolist(), log_dets.tolist(), strict=True)
    return np.stack([log_student_t(of, degrees, d, log_det) for of, degrees, log_det in each])


def squares(components: Components, events: Matrix) -> Matrix:
    """(x - mean)' scale^-1 (x - mean) of events (n, d), (K, n): forward substitution in all factors at once."""
    factor = components.factor
    left = events.T - components.mean[:, :, None]
    for i in range(factor.shape[1]):
        if i:
            left[:, i] -= (factor[:, i, None, :i] @ left[:, :i])[:, 0]
        left[:, i] /= factor[:, i, i, None]
    return np.asarray(np.einsum("kdn,kdn->kn", left, left), dtype=np.float64)


def log_determinants(factor: NDArray[np.float64]) -> Vector:
    """log|L L'| of each factor."""
    logs: Vector = 2 * np.log(factor.diagonal(axis1=1, axis2=2)).sum(axis=1)
    return logs


def blocks(events: Matrix, k: int) -> Iterator[tuple[slice, Matrix]]:
    """The events in parts whose arrays over k components stay small, each with its place."""
    step = max(1, _BLOCK // (k * events.shape[1]))
    for begin in range(0, len(events), step):
        part = slice(begin, begin + step)
        yield part, events[part]


def _absorb(upper: NDArray[np.float64], rows: Matrix) -> NDArray[np.float64]:
    """The triangles of R'R + v v', one row v for each, by the rotations of `roots.absorb`."""
    upper, rows = upper.copy(), rows.copy()
    for i in range(rows.shape[1]):
        length = np.hypot(upper[:, i, i], rows[:, i])
        c, s = (upper[:, i, i] / length)[:, None], (rows[:, i] / length)[:, None]
        above = upper[:, i, i:].copy()
        upper[:, i, i:] = c * above + s * rows[:, i:]
        rows[:, i:] = c * rows[:, i:] - s * above
    return upper
