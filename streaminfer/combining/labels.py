"""Components of mixtures in the same order in all subposteriors, by the rule that draws of chains are matched by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families.special import linear_assignment
from streaminfer.models.model import Matrix
from streaminfer.sampling.pooled import labels

_ODDS: Final = float(np.log(99.0))
"""The log odds of the best match against the second-best, below which it is ambiguous."""

Parameters = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Draws of all parts in one order, the permutation of each (J, K), and the share of parts with an ambiguous one."""

    parts: tuple[dict[str, NDArray[np.float64]], ...]
    orders: NDArray[np.intp]
    ambiguous: float


def aligned(parts: Sequence[Parameters], reference: int = 0) -> Aligned:
    """Constrained draws {name: (T, K, ...)} of each part, with their components in the order of a reference part.

    A part's own draws are in one order already, so that one permutation of its mean parameters does for all of them. A
    match is ambiguous if the second-best permutation may well be right: if its chance is above 0.01, where the means of
    two parts differ by as much as the draws of both are spread.
    """
    means: list[dict[str, Any]] = [{name: values.mean(axis=0) for name, values in part.items()} for part in parts]
    goal, cov = means[reference]["means"], labels.within(means[reference])
    orders = labels.orders(np.array([each["means"] for each in means]), goal, cov)
    changed = tuple(
        {name: values[:, order] for name, values in part.items()} for part, order in zip(parts, orders, strict=True)
    )
    others = [j for j in range(len(parts)) if j != reference]
    factor = matrices.cholesky(cov)
    spreads = [_spread(part["means"], factor) for part in parts]
    doubtful = [_is_ambiguous(means[j]["means"], goal, factor, spreads[reference] + spreads[j]) for j in others]
    return Aligned(changed, orders, float(np.mean(doubtful)) if doubtful else 0.0)


def _spread(draws: NDArray[np.float64], factor: Matrix) -> float:
    """The mean variance of a coordinate of a component's mean over draws (T, K, d), in units of the components."""
    around = (draws - draws.mean(axis=0)).reshape(-1, draws.shape[2])
    return float((matrices.solve_lower(factor, around.T) ** 2).mean())


def _is_ambiguous(means: Matrix, goal: Matrix, factor: Matrix, variance: float) -> bool:
    """Whether the second-best assignment, that without one of the best one's pairs, is not far less likely.

    Means differ from the goal by `variance` in each coordinate. A part whose components are all shifted by as much is
    as clear as if they were not: that adds the same to the costs of all assignments.
    """
    white, there = (matrices.solve_lower(factor, rows.T).T for rows in (means, goal))
    costs = ((there[:, None] - white[None]) ** 2).sum(axis=-1)
    rows = np.arange(len(costs))
    best = linear_assignment(costs)
    if len(costs) == 1:
        return False
    second = np.inf
    for row in rows:
        without = costs.copy()
        without[row, best[row]] = costs.sum() + 1  # dearer than any assignment
        second = min(second, float(costs[rows, linear_assignment(without)].sum()))
    return second - float(costs[rows, best].sum()) < 2 * variance * _ODDS
