"""Empirical Bayes: the prior that maximises the evidence of many sets of events (type II maximum likelihood).

Hyperparameters are searched as logs, or in units of the data, by L-BFGS-B with the gradient in closed form, inside
bounds: sets that are all alike would drive the prior's precision to infinity, so no prior is worth more than
`MOST_EVENTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np

from streaminfer.families import special
from streaminfer.models import priors
from streaminfer.models.model import Conjugate, Matrix, Vector

MOST_EVENTS: Final = 1e6
FEWEST_EVENTS: Final = 1e-6
"""Bounds of every pseudo-count, shape or precision of a pooled prior, in events that it is worth. What has the
units of the data stays within the same factors of a plain estimate from all events."""

M = TypeVar("M", bound=Conjugate)


class Bounds(NamedTuple):
    """Where the search may go: (h,) each."""

    lowest: Vector
    highest: Vector


def bounds(references: Vector, free: int = 0) -> Bounds:
    """`free` coordinates without bounds, then logs within the factors of their references, as far as a spec allows."""
    open_end, lowest, highest = np.full(free, np.inf), references * FEWEST_EVENTS, references * MOST_EVENTS
    return Bounds(*(np.append(*ends) for ends in ((-open_end, _logs(lowest)), (open_end, _logs(highest)))))


def _logs(values: Vector) -> Vector:
    return np.log(priors.positives(values))


def maximise(total: Callable[[Vector], tuple[float, Vector]], starts: Sequence[Vector], within: Bounds) -> Vector:
    """The place (h,) of a maximum of `total`, which gives value and gradient; begins at the best of `starts`."""
    places = [np.clip(start, *within) for start in starts]
    return special.maximise(total, max(places, key=lambda place: total(place)[0]), *within)


def better(own: M, other: M, rows: Matrix) -> M:
    """The model with the larger total evidence: the own prior stays where the search found nothing better."""
    return other if other.log_evidences(rows).sum() > own.log_evidences(rows).sum() else own
