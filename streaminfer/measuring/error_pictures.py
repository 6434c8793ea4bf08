"""The error of a Markov chain's estimate against compute, in its three parts (Angelino, Johnson & Adams 2016).

The *transient bias* is what is left of the start. The *Monte-Carlo error* is the deviation of the estimate from run to
run. The *asymptotic bias* never falls: it is that of the chain's own stationary distribution, 0 for exact chains. Each
is told for three estimates after t draws: the mean of all, of the last half, and the last draw by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector

Estimator = Literal["all", "last_half", "last_draw"]
ESTIMATORS: Final[tuple[Estimator, ...]] = get_args(Estimator)


def estimates(values: Matrix, after: NDArray[np.intp], estimator: Estimator) -> Matrix:
    """Of runs (runs, T) of a function's values, after the given numbers of draws (p,), each from 1 to T: (runs, p).

    The last half of t draws is from the draw with the number floor(t/2) + 1 to t, counted from 1.
    """
    if len(after) and not (after.min() >= 1 and after.max() <= values.shape[1]):
        raise ValueError(f"estimates are after 1 to {values.shape[1]} draws, not {after.min()} to {after.max()}")
    if estimator == "last_draw":
        return values[:, after - 1]
    sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    first = after // 2 if estimator == "last_half" else np.zeros_like(after)
    return np.asarray((sums[:, after] - sums[:, first]) / (after - first), dtype=np.float64)


class Errors(NamedTuple):
    """Curves over compute, (p,) each, and one number; standard errors are those over runs."""

    compute: Vector
    """What was spent, in any unit."""
    transient: Vector
    """The mean of the estimate less the stationary mean; its sign is kept."""
    transient_se: Vector
    monte_carlo: Vector
    """The deviation of the estimate over runs."""
    total: Vector
    """The root of the mean square of estimate less truth."""
    asymptotic: float
    """The stationary mean less the truth."""

    @property
    def curves(self) -> Matrix:
        """For a plot, (p, 5): compute, sizes of the three errors, and their total."""
        level = np.full(len(self.compute), abs(self.asymptotic))
        return np.column_stack([self.compute, np.abs(self.transient), self.monte_carlo, level, self.total])


def errors(
    values: Matrix, truth: float, after: NDArray[np.intp], cost: float, estimator: Estimator, stationary: float
) -> Errors:
    """The errors of runs (runs, T) that all start alike; a draw costs `cost`.

    `stationary` is the mean in the long run: the truth for an exact chain, else known or from `stationary_mean`.
    """
    if len(values) < 2:
        raise ValueError(f"a Monte-Carlo error needs at least 2 runs, not {len(values)}")
    found = estimates(values, after, estimator)
    spread = found.std(axis=0, ddof=1)
    return Errors(
        cost * after.astype(np.float64),
        found.mean(axis=0) - stationary,
        spread / np.sqrt(len(values)),
        spread,
        np.sqrt(np.square(found - truth).mean(axis=0)),
        stationary - truth,
    )


def stationary_mean(values: Matrix) -> tuple[float, float]:
    """The mean of the last half of runs (runs, T), over all of them, and its standard error."""
    last = estimates(values, np.array([values.shape[1]]), "last_half")[:, 0]
    return float(last.mean()), float(last.std(ddof=1) / np.sqrt(len(last)))


class Marginals(NamedTuple):
    """Where runs are after some draws: quantiles (p, levels) over runs, beside those of the target (levels,)."""

    after: NDArray[np.intp]
    levels: Vector
    quantiles: Matrix
    target: Vector


def marginals(values: Matrix, after: NDArray[np.intp], target: Vector, levels: Sequence[float]) -> Marginals:
    """The marginals panel: how the distribution of the last draw comes to that of exact draws `target` (m,)."""
    return Marginals(
        after,
        np.array(levels),
        np.asarray(np.quantile(values[:, after - 1], levels, axis=0).T, dtype=np.float64),
        np.asarray(np.quantile(target, levels), dtype=np.float64),
    )
