"""Kernels of Weierstrass samplers: the same for all parts, with a bandwidth of its own for each coordinate.

A product of smoothed subposteriors is a product of sums of kernels (`terms.py`) whose pairs are proposed at random.
It is wider than the posterior by a last kernel of variance h^2 / J around each average of draws that agree. That kernel
is left out: what is given are the averages. For equal Gaussian subposteriors their variance s^2 / J is that of the
posterior whatever h is, while the smoothed product has (s^2 + h^2) / J. In many dimensions no two draws agree but with
a wide bandwidth (at d = 50 about 3 deviations), and the averages come near those of equal weights: what is left of the
error is that of subposteriors that differ in width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.methods.terms import Terms, frame
from streaminfer.combining.part import Combined, Moments, Options, Part
from streaminfer.combining.picking import at_most, systematic
from streaminfer.families import matrices
from streaminfer.models.model import Matrix, Vector

ACCEPTED: Final = 0.03
"""The share of pairs of draws that the bandwidth is chosen to accept. Logistic means (d = 5, J = 8) are 0.28 sd off in
the root mean square with 0.1, 0.21 with 0.03, and 0.23 with 0.01, where pairs may be worth fewer than 50 draws. These
are averages over six posteriors, of which single ones differ by as much."""
_TRIED: Final = 1000


def variances(found: Sequence[Moments]) -> Vector:
    """The squared unit of bandwidths (d,): the harmonic mean over parts of each coordinate's variance.

    It is J times the posterior's variance if coordinates are independent.
    """
    return np.asarray(1 / np.mean([1 / np.diag(m.cov) for m in found], axis=0), dtype=np.float64)


def leaves(parts: Sequence[Part], unit: Vector, h: float, options: Options, rng: np.random.Generator) -> list[Terms]:
    """Each part as equal kernels of variances h^2 unit (d,)."""
    picked = [at_most(part, options.components, rng) for part in parts]
    return [Terms(centres, np.zeros(len(centres)), np.diag(h**2 * unit)) for centres in picked]


def random_pairs(a: Terms, b: Terms, n: int, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Averaged centres (n, d) of pairs chosen at random, and the log of how well each pair agrees, at most 0 (n,)."""
    _, left, right = frame(a, b)
    s, t = a.centres[rng.integers(0, len(a.centres), n)], b.centres[rng.integers(0, len(b.centres), n)]
    white = matrices.solve_lower(moments.root(a.kernel + b.kernel), (s - t).T)
    return s @ left.T + t @ right.T, np.asarray(-0.5 * (white * white).sum(axis=0), dtype=np.float64)


def averages(
    terms: Terms, n: int, rng: np.random.Generator, found: tuple[Moments, ...], notes: dict[str, float]
) -> Combined:
    """n of the centres, without their kernel, and the moments of all."""
    mean = terms.centres.mean(axis=0)
    around = terms.centres - mean
    order = rng.permutation(systematic(np.ones(len(around)), n, rng))
    return Combined(terms.centres[order], mean, around.T @ around / (len(around) - 1), found, notes)


def bandwidth(units: Sequence[Terms], rng: np.random.Generator) -> float:
    """The least h at which 0.03 of the pairs of the worst two neighbours agree. Kernels are those of h = 1."""
    logs = [random_pairs(a, b, _TRIED, rng)[1] for a, b in zip(units[::2], units[1::2], strict=False)]
    low, high = 1e-6, 1e6
    for _ in range(60):
        middle = np.sqrt(low * high)
        is_enough = min((float(np.exp(each / middle**2).mean()) for each in logs), default=1.0) >= ACCEPTED
        low, high = (low, middle) if is_enough else (middle, high)
    return float(high)
