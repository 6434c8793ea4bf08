"""Sums of Gaussian kernels, and products of them by exact choice in pairs.

The product of two sums of S and T kernels is a sum of S T kernels. All of them are weighed, and as many are chosen as
shall be kept; the product of J sums is a tree of such pairs. Choosing one index after the other by a Markov chain
(`indices.py`) mixes badly.

Most pairs of two subposteriors lie where the others leave no mass. So pairs are chosen by their mass times a guide, a
Gaussian that is about what the other sums are, and keep one over the guide as their weight: the product is the same,
but the terms that are kept are where it is. Without the guide, means of a logistic posterior (d = 5, J = 8, 2,000 draws
each) are 0.32 sd off in the root mean square, with it 0.23.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import moments
from streaminfer.combining.part import Combined, Gaussian, Moments
from streaminfer.combining.picking import normalised, systematic
from streaminfer.models.model import Matrix, Vector

_NUMBERS: Final = 1 << 21
"""Weights of pairs that are held at once."""
_GUIDE: Final = 2.0
"""How many times wider guides are than what they stand for: a narrow one would make weights uneven."""


class Terms(NamedTuple):
    """factor(theta) sum_t exp(log_weights_t) N(theta | centres_t, kernel): centres (T, d), kernel (d, d).

    The factor is a Gaussian, or 1 if it is None.
    """

    centres: Matrix
    log_weights: Vector
    kernel: Matrix
    factor: Gaussian | None = None

    def masses(self) -> Vector:
        """The logarithm of each term's integral, up to a constant, the factor included."""
        return self.log_weights + self._tilt()

    def residual(self) -> Terms:
        """The same centres, each chosen in proportion to its mass, so that all masses are equal."""
        return self._replace(log_weights=-self._tilt())

    def _tilt(self) -> Vector:
        """The integral of the factor times a kernel: N(c | mu, Sigma + H)."""
        if self.factor is None:
            return np.zeros(len(self.centres))
        return moments.log_density(self.centres, self.factor._replace(cov=self.factor.cov + self.kernel))


Join = Callable[[Terms, Terms, range], Terms]
"""The product of two neighbours in a tree, which together are the product of a range of its leaves."""


def tree(leaves: Sequence[Terms], join: Join) -> Terms:
    """The product of all, two neighbours at a time."""
    level = [(leaf, range(j, j + 1)) for j, leaf in enumerate(leaves)]
    while len(level) > 1:
        joined = []
        for (a, left), (b, right) in zip(level[::2], level[1::2], strict=False):
            both = range(left.start, right.stop)
            joined.append((join(a, b, both), both))
        level = joined + level[2 * len(joined) :]
    return level[0][0]


def guide(fits: Sequence[Gaussian], both: range) -> Gaussian | None:
    """About what the leaves outside a range are together, twice as wide; None if there are no others."""
    others = [fit for j, fit in enumerate(fits) if j not in both]
    if not others:
        return None
    rest = moments.product((fit.mean, moments.inverse(fit.cov)) for fit in others)
    return rest._replace(cov=_GUIDE * rest.cov)


def frame(a: Terms, b: Terms) -> tuple[Terms, Matrix, Matrix]:
    """What the product of two sums has whatever pairs are chosen: kernel and factor; and how centres are averaged.

    N(x | s, A) N(x | t, B) = N(s - t | 0, A + B) N(x | B (A + B)^-1 s + A (A + B)^-1 t, A (A + B)^-1 B).
    """
    between = moments.inverse(a.kernel + b.kernel)
    left, right = b.kernel @ between, a.kernel @ between
    kernel = left @ a.kernel
    return Terms(np.empty((0, 0)), np.empty(0), (kernel + kernel.T) / 2, _times(a.factor, b.factor)), left, right


def _times(a: Gaussian | None, b: Gaussian | None) -> Gaussian | None:
    if a is None or b is None:
        return a or b
    return moments.product((each.mean, moments.inverse(each.cov)) for each in (a, b))


def exact_pairs(a: Terms, b: Terms, size: int, rng: np.random.Generator, guided: Gaussian | None = None) -> Terms:
    """`size` of all pairs, chosen by their masses times the guide.

    The mass of a pair is a quadratic function of its two centres: a sum of one number each and an inner product, so
    that all pairs are one product of matrices.
    """
    plain, left, right = frame(a, b)
    made = plain._replace(factor=_times(plain.factor, guided))
    between = moments.inverse(a.kernel + b.kernel)
    origin = a.centres.mean(axis=0) if made.factor is None else made.factor.mean
    tilt = np.zeros_like(between) if made.factor is None else moments.inverse(made.factor.cov + made.kernel)
    s, t = a.centres - origin, b.centres - origin
    of_s = a.log_weights - 0.5 * np.einsum("ni,ij,nj->n", s, between + left.T @ tilt @ left, s, optimize=True)
    of_t = b.log_weights - 0.5 * np.einsum("ni,ij,nj->n", t, between + right.T @ tilt @ right, t, optimize=True)
    rows, columns = chosen(of_s, of_t, s @ (between - left.T @ tilt @ right), t, size, rng)
    centres = a.centres[rows] @ left.T + b.centres[columns] @ right.T
    return made._replace(centres=centres).residual()._replace(factor=plain.factor)


def chosen(
    of_s: Vector, of_t: Vector, x: Matrix, y: Matrix, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """n pairs (s, t), each with a probability proportional to exp(of_s + of_t + x_s . y_t).

    First s by the sum over all t, at even distances so that none is chosen much more or less often than it shall be;
    then t given s, some s at a time.
    """
    step = max(1, _NUMBERS // len(y))
    sums = np.empty(len(x))
    for begin in range(0, len(x), step):
        logs = x[begin : begin + step] @ y.T + of_t
        top = logs.max(axis=1)
        sums[begin : begin + step] = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
    rows = systematic(normalised(of_s + sums), n, rng)
    distinct, firsts = np.unique(rows, return_index=True)
    ends, columns, uniform = np.append(firsts[1:], n), np.empty(n, dtype=np.intp), rng.random(n)
    for begin in range(0, len(distinct), step):
        few = distinct[begin : begin + step]
        logs = x[few] @ y.T + of_t
        shares = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        for share, first, end in zip(shares, firsts[begin:], ends[begin:], strict=False):
            columns[first:end] = np.searchsorted(share, uniform[first:end] * share[-1], side="right")
    return rows, np.minimum(columns, len(y) - 1)


def finished(
    terms: Terms, n: int, rng: np.random.Generator, found: tuple[Moments, ...], notes: dict[str, float]
) -> Combined:
    """n draws of a sum of kernels times its factor, and its moments.

    A kernel times the factor is N(m_t, V): V = (H^-1 + Sigma^-1)^-1, m_t = V (H^-1 c_t + Sigma^-1 mu).
    """
    means, cov = terms.centres, terms.kernel
    if terms.factor is not None:
        precision = moments.inverse(terms.factor.cov)
        inner = moments.inverse(terms.kernel)
        cov = moments.inverse(inner + precision)
        means = terms.centres @ (cov @ inner).T + cov @ precision @ terms.factor.mean
    weights = normalised(terms.masses())
    mean = weights @ means
    around = means - mean
    order = rng.permutation(systematic(weights, n, rng))
    draws = means[order] + rng.standard_normal((n, len(mean))) @ moments.root(cov).T
    return Combined(draws, mean, cov + (weights[:, None] * around).T @ around, found, notes)
