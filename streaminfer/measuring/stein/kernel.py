"""The kernel Stein discrepancy of draws from a posterior, and what it is worth in posterior deviations.

Draws are whitened, so that the discrepancy does not depend on units. A state holds the draws so far and sums over their
pairs: new draws cost their pairs with all of them, in blocks of bounded memory. Draws count by weights.

The discrepancy is blind to modes that no draw has reached: scores know nothing of them. Thin the draws of a chain
first, as the standard error takes them for independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from streaminfer.measuring import whitening
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.stein import imq
from streaminfer.measuring.whitening import Whitening
from streaminfer.models.model import Matrix, Vector

MOST: Final = 50_000
"""The most draws: time grows with their square."""
_ROWS: Final = 512
"""Draws in a block: arrays over pairs of two blocks have 2 MB."""


class State(NamedTuple):
    """Draws u (n, d) on the whitened scale, scores by u, weights (n,), and sums over pairs of different draws.

    `sums` (n,) are those of weight times kernel over all other draws. `plain` and `squares` are sums over all pairs of
    the squares of both weights, times the kernel and its square. If `is_difference`, scores are those of the posterior
    less those of the density that was drawn from.
    """

    place: Whitening
    is_difference: bool
    points: Matrix
    scores: Matrix
    weights: Vector
    sums: Vector
    plain: float = 0.0
    squares: float = 0.0


class Discrepancy(NamedTuple):
    """Squared kernel Stein discrepancies: `u` without pairs of a draw with itself, which has no bias; `v` with them.

    `delta` is sqrt(max(u, 0) / kappa_d): N(delta, I) is so far from N(0, I) if delta is the distance of their means.
    """

    u: float
    u_se: float
    v: float
    delta: float
    delta_se: float
    n: int


def init(place: Whitening, is_difference: bool = False) -> State:
    """No draws yet."""
    none, empty = np.empty((0, len(place.mean))), np.empty(0)
    return State(place, is_difference, none, none, empty, empty)


def step(state: State, theta: Matrix, scores: Matrix, weights: Vector | None = None) -> State:
    """With more draws theta (m, d), their scores by theta (m, d), and weights (m,) on the scale of the earlier ones."""
    theta, scores, _ = whitening.scored(theta, scores, weights)
    n, m = len(state.points), len(theta)
    if n + m > MOST:
        raise Unknowable(f"There are {n + m:,} draws, and at most {MOST:,} can be compared.", "Thin them.")
    points = np.vstack([state.points, state.place.points(theta)])
    white = np.vstack([state.scores, state.place.scores(scores)])
    w = np.concatenate([state.weights, np.ones(m) if weights is None else np.asarray(weights, dtype=np.float64)])
    sums, plain, squares = np.concatenate([state.sums, np.zeros(m)]), state.plain, state.squares
    kernel = imq.differences if state.is_difference else imq.pairs
    for new, old in _blocks(n, n + m):
        found = kernel(points[new], white[new], points[old], white[old])
        if new == old:
            np.fill_diagonal(found, 0.0)
        else:
            sums[old] += w[new] @ found
        sums[new] += found @ w[old]
        times = 1 if new == old else 2
        plain += times * float(w[new] ** 2 @ found @ w[old] ** 2)
        squares += times * float(w[new] ** 2 @ np.square(found, out=found) @ w[old] ** 2)
    return State(state.place, state.is_difference, points, white, w, sums, plain, squares)


def _blocks(n: int, end: int) -> Iterator[tuple[slice, slice]]:
    """Each pair of draws with one of [n, end) once: blocks of new draws, with earlier ones and with themselves."""
    for begin in range(n, end, _ROWS):
        new = slice(begin, min(begin + _ROWS, end))
        for first in range(0, begin, _ROWS):
            yield new, slice(first, min(first + _ROWS, begin))
        yield new, new


def result(state: State) -> Discrepancy:
    """What the draws so far tell; raises Unknowable if there are fewer than three.

    The standard error is that of a U-statistic (Hoeffding 1948): 4 Var(row means) / n - 2 Var(kernel) / n^2, so that
    it is right also if the draws are exact, and row means differ by chance alone.
    """
    w, n = state.weights, len(state.weights)
    if np.count_nonzero(w) < 3:
        raise Unknowable(f"There are {np.count_nonzero(w)} draws that count, and 3 are needed.", "Wait for more draws.")
    total, own = w.sum(), w @ w
    between = total**2 - own
    u = float(w @ state.sums / between)
    means = state.sums / (total - w)
    spread = (state.squares - 2 * u * state.plain + u * u * (own**2 - (w**4).sum())) / between**2
    variance = max(4 * float(w**2 @ (means - u) ** 2) / total**2 - 2 * spread, 2 * spread)
    diagonal = np.einsum("ij,ij->i", state.scores, state.scores)
    if not state.is_difference:
        diagonal += state.scores.shape[1]
    v = float((w @ state.sums + w**2 @ diagonal) / total**2)
    unit = kappa(state.points.shape[1])
    square, error = max(u, 0.0) / unit, np.sqrt(variance) / unit
    delta = float(np.sqrt(square))
    # the error of a square root, which has no derivative at 0
    return Discrepancy(u, float(np.sqrt(variance)), v, delta, float(np.sqrt(square + error)) - delta, n)


def measure(
    theta: Matrix,
    scores: Matrix,
    *,
    drawn_from: Matrix | None = None,
    weights: Vector | None = None,
    place: Whitening | None = None,
) -> Discrepancy:
    """The discrepancy of draws theta (n, d) with weights (n,) from the posterior that has these scores (n, d).

    `place` is the scale, by default that of the draws. If the density of what was drawn from is known, its own scores
    are `drawn_from` (n, d): small differences are then seen better.
    """
    place = whitening.of_draws(theta, weights) if place is None else place
    scores = np.asarray(scores, dtype=np.float64)
    scores = scores if drawn_from is None else scores - drawn_from
    return result(step(init(place, drawn_from is not None), theta, scores, weights))


@lru_cache
def kappa(d: int) -> float:
    """KSD^2 of N(delta, I) from N(0, I) over delta^2: E (1 + 2 chi^2_d)^(-1/2).

    That is 2 / sqrt(pi) times the integral of e^(-y^2) (1 + 4 y^2)^(-d/2) over y > 0.
    """
    from scipy import integrate

    scale = 1 / np.sqrt(1 + 2 * d)
    found, _ = integrate.quad(
        lambda x: np.exp(-((scale * x) ** 2)) * (1 + 4 * (scale * x) ** 2) ** (-d / 2), 0, np.inf, epsabs=1e-13
    )
    return float(2 / np.sqrt(np.pi) * scale * found)
