"""Pooled priors hold what they say: 95% intervals of the parameters of keys that are drawn from a known prior.

Keys are drawn as strong as 2 or 10 events around their mean, or all equal, with another mean in every data set. The
figure is the share of intervals that hold the true value, of at most ten keys of each data set. A check leaves 5
standard errors of it: a false alarm is below 3e-7, and the seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from streaminfer.models import pooling
from tests.models.examples import build

STRENGTHS = (2.0, 10.0, math.inf)
KEYS = (2, 5, 50, 500)
EVENTS = (1, 2, 5, 50)
DATA_SETS = {2: 60, 5: 40, 50: 16, 500: 6}
LOOKED_AT = 10
NUMBERS = {"gaussian": 4, "linear_regression": 6}
"""How many numbers such a prior has: to fewer events nothing is fitted."""

Simulation = Callable[[np.random.Generator, float, int, int], np.ndarray]


def bernoulli(rng: np.random.Generator, strength: float, k: int, n: int) -> np.ndarray:
    """The distribution functions of the first keys' posteriors at their true values: uniform if all is right."""
    mean = rng.uniform(0.1, 0.9)
    p = rng.beta(mean * strength, (1 - mean) * strength, k) if strength < math.inf else np.full(k, mean)
    ones = rng.binomial(n, p).astype(float)
    rows = np.column_stack([ones, n - ones])
    found = build("bernoulli", field="y").pooled(rows)
    alpha, beta = (np.array([found.alpha, found.beta]) + rows[:LOOKED_AT]).T
    return special.betainc(alpha, beta, p[:LOOKED_AT])


def categorical(rng: np.random.Generator, strength: float, k: int, n: int) -> np.ndarray:
    mean = rng.dirichlet([3.0, 3.0, 3.0])
    p = rng.dirichlet(mean * strength, k) if strength < math.inf else np.tile(mean, (k, 1))
    rows = rng.multinomial(n, p).astype(float)
    found = build("categorical", field="c", categories=["a", "b", "c"]).pooled(rows)
    c = found.prior + rows[:LOOKED_AT]
    return special.betainc(c, c.sum(axis=1, keepdims=True) - c, p[:LOOKED_AT]).ravel()


def poisson(rng: np.random.Generator, strength: float, k: int, n: int) -> np.ndarray:
    mean = math.exp(rng.uniform(0, 3))
    rate = rng.gamma(mean * strength, 1 / strength, k) if strength < math.inf else np.full(k, mean)
    rows = np.column_stack([rng.poisson(n * rate), np.full(k, n), np.zeros(k)]).astype(float)
    found = build("poisson", field="k").pooled(rows)
    shape, total = found.shape + rows[:LOOKED_AT, 0], found.rate + rows[:LOOKED_AT, 1]
    return special.gammainc(shape, total * rate[:LOOKED_AT])


def variances(rng: np.random.Generator, strength: float, k: int) -> np.ndarray:
    """The variances of noise: with 9 degrees of freedom, or all equal."""
    return 4 * (9 / rng.chisquare(9, k) if strength < math.inf else np.ones(k))


def gaussian(rng: np.random.Generator, strength: float, k: int, n: int) -> np.ndarray:
    noise, groups = variances(rng, strength, k), np.repeat(np.arange(k), n)
    mean = rng.normal(0, 30) + rng.normal(size=k) * np.sqrt(noise / strength)
    model = build("gaussian", fields=["u"])
    events = mean[groups] + rng.normal(size=n * k) * np.sqrt(noise[groups])
    rows = model.statistics_by(events[:, None], groups, k)
    found, shares = model.pooled(rows), []
    for m, s2, row in zip(mean[:LOOKED_AT], noise, rows, strict=False):
        q = found.posterior(row).parameters
        scale = float(q.scale[0, 0])
        sd = math.sqrt(scale / q.dof / q.kappa)
        shares += [stats.t.cdf((m - q.mean[0]) / sd, q.dof), stats.chi2.sf(scale / s2, q.dof)]
    return np.array(shares)


def linear_regression(rng: np.random.Generator, strength: float, k: int, n: int) -> np.ndarray:
    noise, groups = variances(rng, strength, k), np.repeat(np.arange(k), n)
    weights = rng.normal(0, 5, 2) + rng.normal(size=(k, 2)) * np.sqrt(noise[:, None] / strength) / [1.0, 2.0]
    x = rng.normal(size=n * k) * 2
    y = weights[groups, 0] + weights[groups, 1] * x + rng.normal(size=n * k) * np.sqrt(noise[groups])
    model = build("linear_regression", features=["x"], target="y")
    rows = model.statistics_by(np.column_stack([x, y]), groups, k)
    found, shares = model.pooled(rows), []
    for w, s2, row in zip(weights[:LOOKED_AT], noise, rows, strict=False):
        q = found.posterior(row).parameters
        inverse = np.linalg.inv(q.factor)
        sds = np.sqrt((inverse**2).sum(axis=0) * q.rate / q.shape)
        shares += [*stats.t.cdf((w - q.mean) / sds, 2 * q.shape), special.gammaincc(q.shape, q.rate / s2)]
    return np.array(shares)


SIMULATIONS: dict[str, Simulation] = {
    each.__name__: each for each in (bernoulli, categorical, poisson, gaussian, linear_regression)
}


def coverage(kind: str, k: int, n: int, strengths: tuple[float, ...] = STRENGTHS) -> tuple[float, float]:
    """The share of 95% intervals that hold the true value, and its standard error."""
    found = []
    for strength in strengths:
        for i in range(DATA_SETS[k]):
            rng = np.random.default_rng([list(SIMULATIONS).index(kind), k, n, int(min(strength, 1e6)), i])
            shares = SIMULATIONS[kind](rng, strength, k, n)
            found.append(((shares > 0.025) & (shares < 0.975)).mean())
    return float(np.mean(found)), float(np.std(found) / math.sqrt(len(found)))


def table(kind: str, **options: Any) -> dict[tuple[int, int], tuple[float, float]]:
    cells = [(k, n) for k in KEYS for n in EVENTS if k * n >= NUMBERS.get(kind, 0)]
    return {cell: coverage(kind, *cell, **options) for cell in cells}


def holds(found: dict[tuple[int, int], tuple[float, float]]) -> bool:
    """At least 90% over all numbers of keys and events, and at least 85% for each."""
    shares, errors = np.array(list(found.values())).T
    overall = math.sqrt((errors**2).sum()) / len(errors)
    return bool(shares.mean() + 5 * overall >= 0.9 and (shares + 5 * errors >= 0.85).all())


@pytest.mark.long
@pytest.mark.parametrize("kind", SIMULATIONS)
def test_intervals_hold_what_they_say(kind: str) -> None:
    found = table(kind)
    assert holds(found), found


@pytest.mark.long
@pytest.mark.parametrize("kind", SIMULATIONS)
def test_the_check_would_find_priors_that_are_too_sure(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million events whatever was seen, as a bound, is far from enough."""
    monkeypatch.setattr(pooling, "strongest", lambda sizes, shares, least: 1e6 * least)
    found = table(kind, strengths=(2.0, 10.0))
    assert not holds(found), found
