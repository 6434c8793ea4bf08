"""How far a published posterior is from the true one, in its own deviations, by scores at its draws.

With theta = mu + L u the score of a Gaussian posterior is linear in u: L' score = g - M u. So least squares of whitened
scores on (1, u) gives its mean mu + L M^-1 g and its covariance L M^-1 L', whatever was published. Of a posterior that
is not Gaussian it gives the slope and the intercept in the mean over the draws. They are best if the draws are where
the posterior is, so there is a second regression around the first one's mean and covariance, and more of them if that
still moves, by shorter steps if a whole one leads further away. If draws are exact, they find no error of any posterior
in the mean over draws: E score = 0 and E score (theta - mu)' = -I (Stein's identity).

Standard errors are those of least squares whose residuals differ in size (MacKinnon and White 1985, as a jackknife
over draws), carried on by derivatives. If scores are estimates by parts of the data, what parts differ by is added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families.special import ndtr
from streaminfer.measuring import whitening
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.whitening import Whitening
from streaminfer.models.model import Matrix, Vector

Scores = NDArray[np.float64]
"""Gradients of the log posterior at k vectors theta: (k, d). Or (b, k, d): b estimates, each by another part of the
events, of which the mean counts."""
Score = Callable[[Matrix], Scores]
"""Scores at theta (k, d)."""
Z: Final = 1.959963984540054
"""A 95% interval has so many deviations on both sides."""
MOST: Final = 16
"""Regressions: two if the second one moves little, more if what was published is far off."""
SETTLED: Final = 0.2
"""Deviations, and parts of a variance, by which the last regression may move."""
STILL: Final = 0.5
"""The same if there is no room for more regressions: beyond it nothing is told."""
SHORTEST: Final = 0.1
_FAR: Final = "Scores do not say where the posterior is: around these draws it is far from Gaussian."
_WIDE: Final = "The scores say that the posterior is not of one peak around these draws."
_MORE: Final = "Look at the draws: chains may be in different modes, or the posterior is far from Gaussian."


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """What is true, in published deviations, for each of c coordinates; all (c,).

    `shift` is (true mean - published mean) / published sd, and `ratio` is true sd / published sd. A published 95%
    interval really holds `coverage`. A coordinate that does not move has NaN.
    """

    shift: Vector
    shift_se: Vector
    ratio: Vector
    ratio_se: Vector
    coverage: Vector
    coverage_se: Vector
    mean: Vector
    """The true mean of theta, (d,), as far as scores tell."""
    cov: Matrix
    """Its true covariance, (d, d)."""


class Fit(NamedTuple):
    """Whitened scores = g - M u, around a place."""

    place: Whitening
    intercept: Vector
    """g, (d,)."""
    slope: Matrix
    """M, (d, d)."""
    inverse: Matrix | None
    """M^-1 (d, d); None if M is not positive definite, so that there is no posterior."""

    @property
    def mean(self) -> Vector:
        return np.asarray(self.place.mean + self.place.root @ (self.known @ self.intercept), dtype=np.float64)

    @property
    def known(self) -> Matrix:
        """M^-1; raises Unknowable."""
        if self.inverse is None:
            raise Unknowable(_WIDE, _MORE)
        return self.inverse

    @property
    def moved(self) -> float:
        """How far mean and variances are from those of the place, in its deviations and as parts."""
        if self.inverse is None:
            return np.inf
        apart = np.abs(self.inverse @ self.intercept), np.abs(np.diag(self.inverse) - 1)
        return float(np.maximum(*apart).max())

    @property
    def cov(self) -> Matrix:
        return np.asarray(self.place.root @ self.known @ self.place.root.T, dtype=np.float64)

    def ahead(self, length: float) -> Whitening | None:
        """The place that it says, or a part of the way there, by precisions; None if that has no covariance."""
        precision = (1 - length) * np.eye(len(self.intercept)) + length * self.slope
        if not matrices.is_positive_definite(precision):
            return None
        inverse, root = matrices.inverse(matrices.cholesky(precision)), self.place.root
        return whitening.of_moments(
            self.place.mean + root @ (inverse @ (length * self.intercept)), root @ inverse @ root.T
        )


def measure(
    theta: Matrix,
    score: Score,
    *,
    scores: Scores | None = None,
    weights: Vector | None = None,
    published: Whitening | None = None,
    functions: Matrix | None = None,
    batch: int = 1,
    correction: float = 1.0,
) -> Regression:
    """Judges the posterior that has the draws theta (n, d) by the scores of the true one.

    `scores` are those at theta, if they are there already; `score` is then called for the other regressions only.
    `published` are the moments that are judged, by default those of the draws. `functions` (c, d) are the linear
    functions of theta that are told, by default its coordinates. Sums over `batch` neighbours count as independent:
    1 for draws that are. `correction` is the share of the variance of data parts that counts, 1 - m/N if they are m of
    N events. Raises Unknowable if the scores do not tell.
    """
    theta, shares = whitening.checked(theta, weights, least=theta.shape[-1] + 2)
    published = whitening.of_draws(theta, shares) if published is None else published
    functions = np.eye(theta.shape[1]) if functions is None else np.asarray(functions, dtype=np.float64)
    points = published.points(theta)
    first = _fitted(published, points, score(theta) if scores is None else scores, shares)
    fit, left = _settled(*first, points, score, shares)
    return _told(published, fit, _moves(fit, left, functions, batch, correction), functions)


def _settled(fit: Fit, left: _Left, points: Matrix, score: Score, shares: Vector) -> tuple[Fit, _Left]:
    """The regression around the place that it says itself. A step that leads further away is made half as long."""
    length = 1.0
    for _ in range(MOST - 1):
        while (around := fit.ahead(length)) is None and length >= SHORTEST:
            length /= 2
        if around is None or length < SHORTEST:
            break
        ahead, remains = _fitted(around, points, score(around.theta(points)), shares)
        if ahead.moved >= max(fit.moved, SETTLED):
            length /= 2
            continue
        fit, left = ahead, remains
        if fit.moved <= SETTLED:
            return fit, left
    if fit.inverse is None:
        raise Unknowable(_WIDE, _MORE)
    if fit.moved > STILL:
        raise Unknowable(_FAR, _MORE)
    return fit, left


def coverage_of(shift: NDArray[np.float64], ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a 95% interval of a Gaussian really holds if the true mean is off by `shift` and the sd by `ratio`."""
    return np.asarray(ndtr((Z - shift) / ratio) - ndtr((-Z - shift) / ratio), dtype=np.float64)


class _Left(NamedTuple):
    """What least squares leave: residuals of draws (n, d), and their pulls (n, d + 1) on the coefficients.

    `parts` (b, d + 1, d) are the coefficients of each part of the data less their mean.
    """

    residuals: Matrix
    pulls: Matrix
    parts: NDArray[np.float64]


def _fitted(place: Whitening, points: Matrix, scores: Scores, shares: Vector) -> tuple[Fit, _Left]:
    """Weighted least squares of whitened scores on (1, u)."""
    given = np.asarray(scores, dtype=np.float64)
    if given.shape[-2:] != points.shape or given.ndim not in {2, 3}:
        raise ValueError(f"scores have the shape {given.shape}; at {points.shape} points it must end in that")
    if not np.isfinite(given).all():
        raise Unknowable("Scores are not finite at some draws.", "Look for draws at the edge of the model's domain.")
    by_part = place.scores(given.reshape(-1, *points.shape))
    right = by_part.mean(axis=0)
    rows = np.column_stack([np.ones(len(points)), points])
    # QR of the weighted rows: the square of their condition would lose half of the digits
    q, r = np.linalg.qr(np.sqrt(shares)[:, None] * rows)
    if np.abs(np.diag(r)).min() <= 1e-10 * np.abs(np.diag(r)).max():
        raise Unknowable("The draws lie in fewer dimensions than they have coordinates.", "Wait for more draws.")
    pulls = np.linalg.solve(r, (np.sqrt(shares)[:, None] * q).T).T
    coefficients = pulls.T @ right
    slope = -0.5 * (coefficients[1:] + coefficients[1:].T)
    inverse = matrices.inverse(matrices.cholesky(slope)) if matrices.is_positive_definite(slope) else None
    fit = Fit(place, coefficients[0], slope, inverse)
    leverage = np.minimum(np.einsum("ij,ij->i", q, q), 1 - 1e-9)
    residuals = (right - rows @ coefficients) / (1 - leverage)[:, None]
    parts = np.einsum("np,bnd->bpd", pulls, by_part, optimize=True) - coefficients
    return fit, _Left(residuals, pulls, parts[: len(parts) if len(parts) > 1 else 0])


class _Moves(NamedTuple):
    """By how much each draw and each part moves the shift and the variance of c functions: (k, c) each."""

    shifts: Matrix
    variances: Matrix
    weight: Vector
    """What the square of each move counts, (k,)."""


def _moves(fit: Fit, left: _Left, functions: Matrix, batch: int, correction: float) -> _Moves:
    """Derivatives: d(M^-1 g) = M^-1 dg - M^-1 dM M^-1 g and d(M^-1) = -M^-1 dM M^-1, dM symmetric.

    A draw moves (g, -M') by a product p e' of its pull and its residual, so nothing larger than (n, c) is needed.
    """
    to, inverse = functions @ fit.place.root, fit.known
    ahead = inverse @ fit.intercept
    e, p = left.residuals, left.pulls[:, 1:]
    through_e, through_p = e @ inverse @ to.T, p @ inverse @ to.T
    shifts = (left.pulls[:, :1] + 0.5 * (p @ ahead)[:, None]) * through_e + 0.5 * (e @ ahead)[:, None] * through_p
    variances = through_e * through_p
    ends = np.arange(0, len(e), batch)
    b = len(left.parts)
    slopes = 0.5 * (left.parts[:, 1:] + left.parts[:, 1:].transpose(0, 2, 1))
    by_inverse = to @ inverse
    part_shifts = (left.parts[:, 0] + slopes @ ahead) @ by_inverse.T
    part_variances = np.einsum("ci,bij,cj->bc", by_inverse, slopes, by_inverse, optimize=True)
    weight = np.concatenate([np.ones(len(ends)), np.full(b, correction / max(b * (b - 1), 1))])
    return _Moves(
        np.vstack([np.add.reduceat(shifts, ends, axis=0), part_shifts]),
        np.vstack([np.add.reduceat(variances, ends, axis=0), part_variances]),
        weight,
    )


def _told(published: Whitening, fit: Fit, moves: _Moves, functions: Matrix) -> Regression:
    was = functions @ published.root
    sd = np.sqrt(np.einsum("ci,ci->c", was, was))
    sd = np.where(sd > 0, sd, np.nan)
    now = functions @ fit.place.root
    shift = functions @ (fit.mean - published.mean) / sd
    ratio = np.sqrt(np.einsum("ci,ij,cj->c", now, fit.known, now, optimize=True)) / sd
    by_shift, by_ratio = moves.shifts / sd, moves.variances / (2 * ratio * sd**2)
    high, low = (Z - shift) / ratio, (-Z - shift) / ratio
    at_high, at_low = (np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) for x in (high, low))
    both = (at_low - at_high) / ratio * by_shift + (low * at_low - high * at_high) / ratio * by_ratio
    shift_se, ratio_se, coverage_se = (np.sqrt(moves.weight @ each**2) for each in (by_shift, by_ratio, both))
    # at no shift the first derivative is 0, and what is left is the second one's; no share has a deviation above 1/2
    bend = (low * at_low - high * at_high) / ratio**2
    coverage_se = np.minimum(np.sqrt(coverage_se**2 + 0.5 * (bend * shift_se**2) ** 2), 0.5)
    coverage = coverage_of(shift, ratio)
    return Regression(shift, shift_se, ratio, ratio_se, coverage, coverage_se, fit.mean, fit.cov)
