"""Empirical Bayes: the prior that maximises the evidence of many sets of events (type II maximum likelihood).

Hyperparameters are searched as logs, or in units of the data, by L-BFGS-B with the gradient in closed form, inside
bounds. Sets that are all alike would drive the strength of a prior to infinity, though a few sets say little about
that. So no prior is stronger than the sets can tell from an infinitely strong one: the variance between sets is at
least its own standard error. Weak hyperpriors put a maximum there that would be on the boundary (Chung et al. 2013, A
nondegenerate penalized likelihood estimator for variance parameters in multilevel models, Psychometrika 78). A maximum
inside the bounds is that of the evidence alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from streaminfer.families import special
from streaminfer.models import priors
from streaminfer.models.model import Conjugate, Matrix, Vector

WIDEST: Final = 1e6
"""A number of a prior that makes it vaguer, not surer, may be this many times away from a plain estimate."""
LEAST_DOF: Final = 3.0
"""Degrees of freedom of a variance that a prior may always have: its mean exists, and little else is said."""

M = TypeVar("M", bound=Conjugate)


class Bounds(NamedTuple):
    """The bounds of the search: (h,) each."""

    lowest: Vector
    highest: Vector


def bounds(lowest: Vector, highest: Vector) -> Bounds:
    """The logs of positive numbers, as far as a spec allows them."""
    return Bounds(*(np.log(priors.positives(ends)) for ends in (lowest, highest)))


def joined(first: Bounds, second: Bounds) -> Bounds:
    """The bounds of the coordinates of both."""
    return Bounds(*(np.append(*ends) for ends in zip(first, second, strict=True)))


def strongest(sizes: Vector, shares: Vector, least: float) -> float:
    """The strength at which the variance between rows is as large as its standard error; at least `least`.

    Rows are worth n (k,), the `sizes`, in the units of the strength s. About the log of the variance between rows they
    have the information I(s) = (1 - 1/k) / 2 sum shares (n / (n + s))^2, and s solves I(s) = 1. The `shares` are the
    independent comparisons that a row allows: 1 if its noise is known, else 1 - 1/n.
    """

    def information(s: float) -> float:
        return float((1 - 1 / len(sizes)) / 2 * (shares * (sizes / (sizes + s)) ** 2).sum())

    if not information(least) > 1:
        return least
    low, high = np.log(least), np.log(sizes.max()) + 0.5 * np.log(shares.sum())
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if information(np.exp(middle)) > 1 else (low, middle)
    return float(np.exp(low))


class Variances(NamedTuple):
    """Bounds of a prior of variances: its degrees of freedom, and its scale for each of them, (m,) each."""

    least_dof: float
    most_dof: float
    lowest: Vector
    highest: Vector


def variances(spare: Vector, events: float, plain: Vector) -> Variances:
    """Rows (k,) have `spare` degrees of freedom beside their means; `plain` (m,) are estimates of the variances.

    The degrees of freedom are at most those of all rows but one, as every row is counted on its own too. Without any,
    all that is known is the variance of all events. Rows too few to tell that their variances differ have a prior whose
    scale is not below the plain estimate: the evidence of a few would put it anywhere.
    """
    others = 1 - 1 / len(spare)
    if spare.sum() < 2:
        most = min(LEAST_DOF - 1, others * (events - 1))
    else:
        most = min(strongest(spare, np.full(len(spare), float(len(plain))), LEAST_DOF), others * float(spare.sum()))
    most = max(LEAST_DOF / WIDEST, most)
    lowest = plain / WIDEST if most > LEAST_DOF else plain
    return Variances(min(1.0, most), most, lowest, plain * WIDEST)


def maximise(total: Callable[[Vector], tuple[float, Vector]], starts: Sequence[Vector], within: Bounds) -> Vector:
    """The place (h,) of a maximum of `total`, which gives value and gradient; begins at the best of `starts`."""
    places = [np.clip(start, *within) for start in starts]
    return special.maximise(total, max(places, key=lambda place: total(place)[0]), *within)


def enough(rows: int, events: float, numbers: int) -> bool:
    """Whether a prior with this many numbers can be fitted: it takes two rows, and one event for each number."""
    return rows >= 2 and events >= numbers


def better(own: M, other: M, rows: Matrix) -> M:
    """The model with the larger total evidence: the own prior stays if the search found nothing better."""
    return other if other.log_evidences(rows).sum() > own.log_evidences(rows).sum() else own
