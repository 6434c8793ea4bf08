"""What a posterior's statistics show of the events in it: the sum of squares of the last column of their matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.workload import LOGISTIC
from streaminfer.models.model import Matrix, Model, Vector

EXACT: Final = 1e-9
ROOM: Final[Mapping[str, float]] = {LOGISTIC: 0.03}
"""How far a sum may be off, as a part of it, if not `EXACT`: of models that keep no sum of squares."""


def sum_of_squares(model: Model, statistics: Vector, events: Matrix) -> float:
    """Of any model of `workload`, which should have learned these events (n, fields)."""
    posterior: Any = model.posterior(statistics)
    if model.kind == LOGISTIC:
        return _of_ones(posterior, statistics, events)
    if model.kind == "linear_regression":
        moments = posterior.moments_absorbed
        return float(moments.scatter[-1, -1] + moments.n * moments.mean[-1] ** 2)
    if model.kind == "gaussian_mixture":
        rows = posterior.absorbed
        return float((rows.scatter[:, -1, -1] + rows.n * rows.mean[:, -1] ** 2).sum())
    raise TypeError(f"{model.kind} does not keep a sum of squares")


def _of_ones(posterior: Any, statistics: Vector, events: Matrix) -> float:
    """What a logistic regression says the targets add up to: a 0/1 target is its own square. To within `ROOM`.

    The probabilities p add up to the ones, and the precision that the intercept has gained is the sum of p (1 - p)
    over the events that were learned: without half of them, half of it.
    """
    d = events.shape[1]
    p = posterior.predict(events[:, :-1], 0.5)["probability"]
    return float(p.sum() * statistics[d] / (p * (1 - p)).sum())
