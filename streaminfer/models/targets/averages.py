"""Predictions that are averages over draws of the parameters: of densities, of probabilities, of counts.

A new event has the mixture of what the draws say of it. Its moments and quantiles are exact, given the draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import gammaincc, ndtr, ndtri
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.predictive import SMOOTH, smallest
from streaminfer.models.targets import parts

Array = NDArray[np.float64]
_CLOSE: Final = 1e-12
"""Quantiles are found to this part of an event's deviation, or of themselves."""
_MOST_STEPS: Final = 200
_TINY: Final = 1e-300


def empty(names: Sequence[str], n: int) -> Predictions:
    """Columns for n rows, to be `put`."""
    return {name: np.empty(n) for name in names}


def put(columns: Predictions, where: slice, values: Predictions) -> None:
    """The predictions of some rows in their places."""
    for name, column in columns.items():
        column[where] = values[name]


def log_mean_exp(logs: Array) -> Array:
    """log of the mean of e^logs over the first axis, (k, ...) -> (...); minus infinity if all of them are."""
    largest = np.maximum(logs.max(axis=0), -np.finfo(np.float64).max)
    with np.errstate(divide="ignore", under="ignore"):
        return np.asarray(largest + np.log(np.exp(logs - largest).mean(axis=0)), dtype=np.float64)


def shares(chances: Array, level: float) -> Predictions:
    """The probability of something, and the interval of its chances (k, ...), one for each draw: (...) each."""
    lower, upper = np.quantile(chances, [0.5 * (1 - level), 0.5 * (1 + level)], axis=0)
    return {"probability": np.asarray(chances.mean(axis=0)), "lower": lower, "upper": upper}


def normals(means: Matrix, sds: Matrix, level: float) -> Predictions:
    """Mean, sd and central interval of n events, each N(mean, sd^2) with one of k draws (n, k)."""
    sds = np.maximum(sds, _TINY)
    mean, sd = _moments(means, sds)
    lower, upper = (_quantile(p, means, sds, mean, sd) for p in (0.5 * (1 - level), 0.5 * (1 + level)))
    return {"mean": mean, "sd": sd, "lower": lower, "upper": upper}


def _moments(means: Matrix, sds: Matrix) -> tuple[Vector, Vector]:
    """The variance is the mean of variances and the variance of means; in units that do not leave float64."""
    mean = means.mean(axis=1)
    around = means - mean[:, None]
    unit = np.maximum(np.maximum(np.abs(around), sds).max(axis=1), _TINY)[:, None]
    return mean, unit[:, 0] * np.sqrt((np.square(around / unit) + np.square(sds / unit)).mean(axis=1))


def _quantile(p: float, means: Matrix, sds: Matrix, mean: Vector, sd: Vector) -> Vector:
    """Newton's method, or halving where that would leave what is known: the quantile is between those of the draws."""
    z = ndtri(p)
    ends = means + z * sds
    low, high = ends.min(axis=1), ends.max(axis=1)
    place = np.clip(mean + z * sd, low, high)
    for _ in range(_MOST_STEPS):
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            t = (place[:, None] - means) / sds
            off = ndtr(t).mean(axis=1) - p
            slope = (np.exp(-0.5 * t * t) / sds).mean(axis=1) / math.sqrt(2 * math.pi)
            after = place - off / slope
        low, high = np.where(off < 0, place, low), np.where(off > 0, place, high)
        after = np.where((after >= low) & (after <= high), after, 0.5 * low + 0.5 * high)
        moved, place = np.abs(after - place), after
        if (moved <= _CLOSE * np.maximum(sd, np.abs(place))).all():
            break
    return place


def poissons(exposures: Vector, rates: Vector, level: float) -> Predictions:
    """The same of n counts, each Poisson(exposure rate) with one of k draws of the rate. Ends are counts in it."""
    different, which = np.unique(exposures, return_inverse=True)
    found = empty(("mean", "sd", "lower", "upper"), len(different))
    for each in parts.slices(different[:, None], len(rates)):
        means = different[each, None] * rates
        mean, sd = _moments(means, np.sqrt(means))
        ends = {
            name: _counts(p, means, mean, sd)
            for name, p in (("lower", 0.5 * (1 - level)), ("upper", 0.5 * (1 + level)))
        }
        put(found, each, {"mean": mean, "sd": sd, **ends})
    return {name: values[which] for name, values in found.items()}


def _counts(p: float, means: Matrix, mean: Vector, sd: Vector) -> Vector:
    """The smallest counts with P(at most that) >= p; large ones are as good as continuous."""
    sds = np.maximum(np.sqrt(means), _TINY)
    found = np.maximum(np.floor(_quantile(p, means, sds, mean, sd)), 0.0)
    rough = np.flatnonzero(mean < SMOOTH)
    few = means[rough]

    def at_most(k: Vector) -> Vector:
        return np.where(k < 0, 0.0, gammaincc(np.maximum(k, 0.0)[:, None] + 1, few).mean(axis=1))

    found[rough] = smallest(p, found[rough], sd[rough], at_most)
    return found
