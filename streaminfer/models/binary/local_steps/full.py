"""Sites of events for weights with a full covariance: from the curvature at the mode, and one sweep of EP from there.

Expectation propagation (Minka 2001) diverges if it starts from a base that is far from the minibatch's posterior. It
starts at the mode, and one sweep of all events at once is then enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.binary.gaussian_weights import FullWeights
from streaminfer.models.binary.local_steps import mode, quadrature
from streaminfer.models.binary.local_steps.links import Link
from streaminfer.models.model import Absorbed, Matrix, Vector

_LEFT: Final = 1e-8
"""A cavity with less than this part of the precision has lost its digits: its event keeps the site it has."""


class Sites(NamedTuple):
    """The sites of the margins of n events: linear and precision (n,)."""

    linear: Vector
    precision: Vector

    def change(self, rows: Matrix, signs: Vector) -> Vector:
        """Their sum as a change of (linear, matrix) of the weights."""
        curved = np.sqrt(self.precision)[:, None] * rows
        return np.concatenate([(self.linear * signs) @ rows, (curved.T @ curved).ravel()])


def laplace(link: Link, base: FullWeights, rows: Matrix, signs: Vector, times: Vector) -> Absorbed:
    """The tangent Gaussian of each event at the mode of all of them given the base."""
    found = mode.find(link, *_whitened(base, rows, signs), times)
    return Absorbed(_tangent(found, times).change(rows, signs), found.converged)


def ep(link: Link, base: FullWeights, rows: Matrix, signs: Vector, times: Vector) -> Absorbed:
    """One sweep of expectation propagation for all events at once, from the sites at the mode."""
    start, B = _whitened(base, rows, signs)
    found = mode.find(link, start, B, times)
    before = _tangent(found, times)
    variances = mode.variances(B, before.precision)
    left = 1 - before.precision * variances
    whole = left > _LEFT
    cavity = variances / np.where(whole, left, 1.0)
    ahead = B @ found.left
    slopes = times * found.values.slope - before.precision * ahead
    after = matched(link, found.margins + ahead - cavity * slopes, cavity, times)
    whole &= np.isfinite(after.linear) & np.isfinite(after.precision)
    sites = Sites(*(np.where(whole, new, old) for new, old in zip(after, before, strict=True)))
    return Absorbed(sites.change(rows, signs), found.converged)


def matched(link: Link, means: Vector, variances: Vector, times: Vector) -> Sites:
    """The sites with which N(means, variances) has mean and variance of the tilted densities.

    With Z the tilted density's sum, d log Z / dm = E[f'] =: g and -d^2 log Z / dm^2 = E[-f''] - Var[f'] =: H, free of
    the cancellation that moments have if the Gaussian is narrow. The tilted mean is m + v g, its variance v (1 - v H).
    """
    variances = np.maximum(variances, quadrature.LEAST)
    found = quadrature.expected(link, means, variances, times, tilted=True)
    curve = found.bend - found.spread
    mild = variances * curve < 0.5
    kept = np.where(mild, 1 - variances * curve, found.variance / variances)
    precision = np.maximum(np.where(mild, curve / kept, (1 - kept) / (kept * variances)), 0.0)
    return Sites(found.slope + precision * (means + variances * found.slope), precision)


def _whitened(base: FullWeights, rows: Matrix, signs: Vector) -> tuple[Vector, Matrix]:
    """Margins start + B u of events for weights of the base in coordinates u in which it is standard normal."""
    return signs * (rows @ base.mean), signs[:, None] * matrices.solve_lower(base.factor, rows.T).T


def _tangent(found: mode.Mode, times: Vector) -> Sites:
    precision = times * found.values.bend
    return Sites(times * found.values.slope + precision * found.margins, precision)


LOCAL: Final[Mapping[str, Callable[[Link, FullWeights, Matrix, Vector, Vector], Absorbed]]] = {
    "ep": ep,
    "laplace": laplace,
}
"""By what a spec says of the local step."""
