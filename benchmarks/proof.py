"""What a posterior's statistics show of the events in it: the sum of squares of the last column of their matrix."""

from __future__ import annotations

from typing import Any

from streaminfer.models.model import Model, Vector


def sum_of_squares(model: Model, statistics: Vector, n: int) -> float:
    """Of any model of `workload`, with n events.

    A 0/1 target is its own square; the first statistic of a logistic regression, the intercept's, is sum (y - 1/2).
    """
    if model.kind == "logistic_regression":
        return float(statistics[0] + n / 2)
    posterior: Any = model.posterior(statistics)
    if model.kind == "linear_regression":
        moments = posterior.moments_absorbed
        return float(moments.scatter[-1, -1] + moments.n * moments.mean[-1] ** 2)
    if model.kind == "gaussian_mixture":
        rows = posterior.absorbed
        return float((rows.scatter[:, -1, -1] + rows.n * rows.mean[:, -1] ** 2).sum())
    raise TypeError(f"{model.kind} does not keep a sum of squares")
