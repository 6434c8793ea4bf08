"""Independent Gaussian weights of events: the product of Gaussians with the largest E[log f] less KL to the base.

At the optimum the precision of weight j is that of the base and the sum over events of E[-(log f)''] x_j^2, and the
mean is the mode of the expected log f (Opper and Archambeau 2009). Nothing here keeps a d x d matrix.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.models.binary.gaussian_weights import DiagonalWeights
from streaminfer.models.binary.local_steps import mode, quadrature
from streaminfer.models.binary.local_steps.links import Link, Values
from streaminfer.models.model import Absorbed, Matrix, Vector

ROUNDS: Final = 60
_TOLERANCE: Final = 1e-5
"""A precision that changes by less than this part of itself has settled."""


def gaussian(link: Link, base: DiagonalWeights, rows: Matrix, signs: Vector, times: Vector) -> Absorbed:
    """The change of (linear, precisions) once means and precisions agree.

    Precisions start from those of the mode, which are too large, and fall: from those of a vague base they might jump
    to and fro.
    """
    start, scales = signs * (rows @ base.mean), 1 / np.sqrt(base.precision)
    B = signs[:, None] * rows * scales
    squares = rows * rows
    found, settled = mode.find(link, start, B, times), False
    added = (times * found.values.bend) @ squares
    for _ in range(ROUNDS):
        spread = squares @ (1 / (base.precision + added))
        after = mode.find(_smoothed(link, spread), start, B, times, found.u)
        more = (times * after.values.bend) @ squares
        if not (np.isfinite(after.u).all() and np.isfinite(more).all()):
            break  # features of 1e100, whose squares leave no digit of anything else
        found, before, added = after, added, more
        settled = bool((np.abs(added - before) <= _TOLERANCE * (base.precision + added)).all())
        if settled:
            break
    shift = scales * found.u
    return Absorbed(
        np.concatenate([base.precision * shift + added * (base.mean + shift), added]), settled and found.converged
    )


def _smoothed(link: Link, spread: Vector) -> Link:
    """E[log f] and its derivatives by the means of margins with these variances."""
    ones = np.ones(len(spread))

    def values(z: Vector) -> Values:
        found = quadrature.expected(link, z, spread, ones, tilted=False)
        return Values(found.log, found.slope, found.bend)

    return values
