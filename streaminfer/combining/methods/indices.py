"""Products of sums of kernels by a Gibbs sampler of indices (Neiswanger, Wang and Xing 2014, Algorithm 1).

A state has one index of each sum. Its mass is that of the product of those kernels. Many chains run side by side; each
makes one draw. The bandwidth falls from 1 like i^(-1/(4+d)) to where it shall end, while i goes to the number of draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import moments
from streaminfer.combining.methods.terms import Terms
from streaminfer.combining.part import Gaussian
from streaminfer.models.model import Matrix, Vector


def annealed(last: float, sweeps: int, d: int) -> Vector:
    """Bandwidths i^(-1/(4+d)) from 1 to `last`, for `sweeps` values of i at even distances."""
    if last >= 1:
        return np.full(sweeps, last)
    return np.asarray(np.linspace(1.0, last ** -(4.0 + d), sweeps) ** (-1 / (4 + d)), dtype=np.float64)


class _Chains(NamedTuple):
    """Of n chains: R = sum_j P_j c_j (n, d), sum_j c_j' P_j c_j (n,), and the sum of the log weights of terms (n,)."""

    pull: Matrix
    square: Vector
    own: Vector

    def masses(self, pooled: Matrix, h: float, factor: Gaussian | None) -> Vector:
        """The log of the integral of each product of kernels, which is one kernel around (sum_j P_j)^-1 R."""
        centres = self.pull @ pooled
        logs = self.own - 0.5 / h**2 * (self.square - (self.pull * centres).sum(axis=1))
        if factor is not None:
            logs = logs + moments.log_density(centres, factor._replace(cov=factor.cov + h**2 * pooled))
        return np.asarray(logs, dtype=np.float64)

    def moved(self, leaf: Terms, precision: Matrix, old: NDArray[np.intp], new: NDArray[np.intp]) -> _Chains:
        """The same with other indices (n,) of one sum."""
        was, now = leaf.centres[old], leaf.centres[new]
        return _Chains(
            self.pull + (now - was) @ precision,
            self.square + ((now @ precision) * now).sum(axis=1) - ((was @ precision) * was).sum(axis=1),
            self.own + leaf.log_weights[new] - leaf.log_weights[old],
        )


def sample(leaves: Sequence[Terms], bandwidths: Vector, n: int, rng: np.random.Generator) -> tuple[Terms, float]:
    """n terms of the product after a sweep with each bandwidth, of the last bandwidth; and the share of accepted moves.

    Kernels of `leaves` are those of bandwidth 1. A move proposes any index of one sum, and is accepted by the masses.
    """
    precisions = [moments.inverse(leaf.kernel) for leaf in leaves]
    pooled = moments.inverse(np.sum(precisions, axis=0))
    # around one point, as sums of squares lose digits far from 0
    origin = np.mean([leaf.centres.mean(axis=0) for leaf in leaves], axis=0)
    leaves = [_shifted(leaf, origin) for leaf in leaves]
    factors = [leaf.factor for leaf in leaves if leaf.factor is not None]
    factor = moments.product((each.mean, moments.inverse(each.cov)) for each in factors) if factors else None
    index = [rng.integers(0, len(leaf.centres), n) for leaf in leaves]
    chains = _Chains(np.zeros((n, len(origin))), np.zeros(n), np.zeros(n))
    for leaf, precision, i in zip(leaves, precisions, index, strict=True):
        place = leaf.centres[i]
        pull, square = place @ precision, ((place @ precision) * place).sum(axis=1)
        chains = _Chains(chains.pull + pull, chains.square + square, chains.own + leaf.log_weights[i])
    n_accepted = 0
    for h in bandwidths.tolist():
        now = chains.masses(pooled, h, factor)
        for j, leaf in enumerate(leaves):
            proposed = rng.integers(0, len(leaf.centres), n)
            there = chains.moved(leaf, precisions[j], index[j], proposed)
            then = there.masses(pooled, h, factor)
            yes = np.log(rng.random(n)) < then - now
            n_accepted += int(yes.sum())
            for old, new in zip((*chains, now, index[j]), (*there, then, proposed), strict=True):
                old[yes] = new[yes]
    made = Terms(chains.pull @ pooled, np.empty(0), float(bandwidths[-1]) ** 2 * pooled, factor)
    return _shifted(made, -origin).residual(), n_accepted / (n * len(leaves) * len(bandwidths))


def _shifted(terms: Terms, origin: Vector) -> Terms:
    factor = terms.factor and terms.factor._replace(mean=terms.factor.mean - origin)
    return terms._replace(centres=terms.centres - origin, factor=factor)
