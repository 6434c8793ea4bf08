"""Bidirectional Monte Carlo (Grosse, Ghahramani & Adams 2015; Grosse, Ancha & Roy 2016): evidence between two bounds.

Parameters are drawn from a base density and data from them, so the parameters are one exact draw of the posterior.
Annealed importance sampling (Neal 2001) from the base to the posterior gives the log evidence from below. The same path
backwards, from the exact draw to the base, gives it from above. Less the variational bound of an approximation, both
are bounds of its divergence from the posterior.

Densities on the way are base × likelihood^b. Variables of single events are summed out of the likelihood, or are drawn
with the data. It judges inference on simulated data: covariates are real, responses are not. The base is the posterior
of a few events, as vague priors simulate absurd data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.measuring.densities import LogDensity, Published, density_of
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.averages import log_mean_exp
from streaminfer.models.targets.density import Density

Direction = Literal["forward", "reverse"]
STEEPNESS: Final = 4.0
"""Of the sigmoid of temperatures: small steps at both ends."""
SIZES: Final = (1.0, 0.3)
"""Steps of one temperature after the other, in units of the best one for a Gaussian; the small one is for the rest."""
EVENTS: Final = 4.0
"""What the base is worth for each parameter: enough for plausible data, and little beside the data."""
SEARCHED: Final = 50
"""Steps towards the mode."""
MOMENT_DRAWS: Final = 1000
"""Of the base, for its mean and covariance."""


def temperatures(count: int) -> Vector:
    """b from 0 to 1, (count + 1,): a sigmoid, stretched so that its ends are 0 and 1."""
    if count < 1:
        raise ValueError(f"a path needs at least 1 temperature, not {count}")
    found = 1 / (1 + np.exp(-STEEPNESS * np.linspace(-1, 1, count + 1)))
    stretched: Vector = (found - found[0]) / (found[-1] - found[0])
    return stretched


@dataclass(frozen=True, eq=False)
class Path:
    """All that is fixed before a run: no step of a chain changes it."""

    likelihood: Density
    """Of the simulated data. Its prior is not asked."""
    base: LogDensity
    temperatures: Vector
    units: Matrix
    """T (d, d): theta = T v. In v the base has unit covariance, and the curvature of the likelihood is diagonal."""
    curvatures: Vector
    """That diagonal (d,), near the posterior's mode, and not below 0."""

    @property
    def size(self) -> float:
        """The best step of MALA for a Gaussian, in its own units: 1.65^2 d^(-1/3) (Roberts & Rosenthal 1998)."""
        return float(1.65**2 * len(self.units) ** (-1 / 3))


def path(target: Any, rows: Matrix, base: Published, count: int, rng: np.random.Generator) -> Path:
    """A path of `count` temperatures for simulated rows (n, columns).

    Its units depend on the data and on the base, and never on the exact draw: a chain from that is then still at rest.
    Raises ValueError if the base has no density.
    """
    if base.density is None:
        raise ValueError("the base has no density, so nothing can be annealed from it")
    likelihood = Density(target, rows)
    draws = base.sample(rng, MOMENT_DRAWS)
    spread = np.atleast_2d(np.cov(draws.T)) + 1e-12 * np.diag(draws.var(axis=0))
    root = np.asarray(np.linalg.cholesky(spread), dtype=np.float64)
    top = _near_mode(likelihood, base.density, draws.mean(axis=0), root)
    bends, turn = np.linalg.eigh(root.T @ _curvature(likelihood, top, root) @ root)
    return Path(likelihood, base.density, temperatures(count), root @ turn, np.maximum(bends, 0.0))


def _near_mode(likelihood: Density, base: LogDensity, start: Vector, root: Matrix) -> Vector:
    """Where base × likelihood is about the largest, in units of the base: units need no more digits than a few."""
    from scipy import optimize

    def descent(v: Vector) -> tuple[float, Vector]:
        theta = (start + root @ v)[None]
        value = float(base.value(theta)[0] + likelihood.log_likelihood(theta)[0])
        slope = root.T @ (base.gradient(theta) + likelihood.likelihood_gradient(theta))[0]
        if not (math.isfinite(value) and np.isfinite(slope).all()):
            return 1e300, np.zeros(len(v))
        return -value, -slope

    options: Any = {"maxiter": SEARCHED, "gtol": 0.01}
    with np.errstate(all="ignore"):
        found = optimize.minimize(descent, np.zeros(len(start)), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(start + root @ found.x, dtype=np.float64)


def _curvature(likelihood: Density, at: Vector, root: Matrix) -> Matrix:
    """Of the likelihood; by differences in units of the base if the target does not know it."""
    if hasattr(likelihood.target, "curvature"):
        total = np.zeros(root.shape)
        for part in likelihood.blocks():
            total += likelihood.target.curvature(at, part)
        return total
    inverse = np.linalg.inv(root)
    steps = 1e-4 * root.T
    slopes = likelihood.likelihood_gradient(at + steps) - likelihood.likelihood_gradient(at - steps)
    bent = -(slopes @ root) / 2e-4
    return np.asarray(inverse.T @ (0.5 * (bent + bent.T)) @ inverse, dtype=np.float64)


class Points(NamedTuple):
    """k places v (k, d) with the logs of base and likelihood (k,) and their gradients by v (k, d)."""

    v: Matrix
    base: Vector
    likelihood: Vector
    base_slope: Matrix
    likelihood_slope: Matrix


class State(NamedTuple):
    """k chains at once: where they are, the logs of their weights (k,), temperatures done, and steps accepted."""

    place: Points
    log_weights: Vector
    done: int
    n_accepted: int


def _at(along: Path, v: Matrix) -> Points:
    theta = v @ along.units.T
    with np.errstate(all="ignore"):
        slopes = along.base.gradient(theta), along.likelihood.likelihood_gradient(theta)
        return Points(
            v,
            along.base.value(theta),
            along.likelihood.log_likelihood(theta),
            slopes[0] @ along.units,
            slopes[1] @ along.units,
        )


def init(along: Path, theta: Matrix) -> State:
    """Chains that start at theta (k, d): at draws of the base forward, at the exact draw in reverse."""
    v = np.asarray(np.linalg.solve(along.units, theta.T).T, dtype=np.float64)
    return State(_at(along, v), np.zeros(len(theta)), 0, 0)


def step(along: Path, state: State, direction: Direction, rng: np.random.Generator) -> State:
    """One temperature: the weight, then a step that keeps the density at rest (no step at the last).

    log w = sum over t of (b_t - b_{t-1}) log likelihood(x_{t-1}), x_t a step at b_t from x_{t-1}. In reverse the same
    places are passed the other way round.
    """
    count = len(along.temperatures) - 1
    t = state.done if direction == "forward" else count - 1 - state.done
    low, high = along.temperatures[t], along.temperatures[t + 1]
    weights = state.log_weights + (high - low) * state.place.likelihood
    place, accepted = state.place, 0
    if state.done < count - 1:
        # t = 0 is the base itself, where nothing is annealed.
        place, accepted = _moved(along, place, float(high if direction == "forward" else low), t, rng)
    return State(place, weights, state.done + 1, state.n_accepted + accepted)


def _moved(along: Path, place: Points, b: float, t: int, rng: np.random.Generator) -> tuple[Points, int]:
    """A step of MALA with the covariance that the curvature says at this temperature."""
    variances = 1 / (1 + b * along.curvatures)
    size = along.size * SIZES[t % len(SIZES)] ** 2
    scale = np.sqrt(size * variances)
    noise, uniform = rng.standard_normal(place.v.shape), np.log1p(-rng.random(len(place.v)))
    with np.errstate(all="ignore"):
        ahead = place.v + 0.5 * size * variances * _slope(place, b) + scale * noise
        there = _at(along, ahead)
        back = (place.v - ahead - 0.5 * size * variances * _slope(there, b)) / scale
        gain = (there.base + b * there.likelihood) - (place.base + b * place.likelihood)
        gain = gain + 0.5 * (noise**2 - back**2).sum(axis=1)
    taken = uniform < np.where(np.isnan(gain), -np.inf, gain)
    chosen = [
        np.where(taken if new.ndim == 1 else taken[:, None], new, old) for new, old in zip(there, place, strict=True)
    ]
    return Points(*chosen), int(taken.sum())


def _slope(place: Points, b: float) -> Matrix:
    return place.base_slope + b * place.likelihood_slope


def run(along: Path, theta: Matrix, direction: Direction, rng: np.random.Generator) -> Iterator[State]:
    """The states of a run, one for each temperature: whoever asks for the next may wait before. The last is the end."""
    state = init(along, theta)
    for _ in range(len(along.temperatures) - 1):
        state = step(along, state, direction, rng)
        yield state


class Sandwich(NamedTuple):
    """Bounds of the log evidence: P(lower > log Z + b) <= e^-b, and P(upper < log Z - b) <= e^-b."""

    lower: float
    upper: float


def sandwich(forward: Vector, reverse: Vector) -> Sandwich:
    """From the logs of weights (k,) each way: log of the mean of w, and minus log of the mean of 1/w."""
    return Sandwich(float(log_mean_exp(forward)), -float(log_mean_exp(-reverse)))


class Bound(NamedTuple):
    """An estimate of E_q[log base + log likelihood - log q], with its standard error."""

    value: float
    se: float


def elbo(q: Published, along: Path, rng: np.random.Generator, draws: int = 1000) -> Bound:
    """The variational bound of an approximation with a density, by its own draws."""
    if q.density is None:
        raise ValueError("the approximation has no density, so it has no variational bound")
    theta = q.sample(rng, draws)
    terms = along.base.value(theta) + along.likelihood.log_likelihood(theta) - q.density.value(theta)
    return Bound(float(terms.mean()), float(terms.std(ddof=1)) / math.sqrt(draws))


class Dataset(NamedTuple):
    """What one simulated data set tells: the bounds, and the variational bound of what was fitted to it."""

    bounds: Sandwich
    bound: Bound


class Divergence(NamedTuple):
    """KL(fitted || posterior), over data sets: means of both bounds with standard errors, and the mean gap, in nats."""

    lower: float
    lower_se: float
    upper: float
    upper_se: float
    gap: float
    gap_se: float
    datasets: int


def divergence(found: list[Dataset]) -> Divergence:
    """Log evidence less the variational bound, from below and from above; needs two data sets or more."""
    if len(found) < 2:
        raise ValueError(f"a standard error needs at least 2 data sets, not {len(found)}")
    bounds = np.array([each.bounds for each in found])
    fitted = np.array([each.bound.value for each in found])
    columns = [bounds[:, 0] - fitted, bounds[:, 1] - fitted, bounds[:, 1] - bounds[:, 0]]
    (lower, lower_se), (upper, upper_se), (gap, gap_se) = map(_mean, columns)
    return Divergence(lower, lower_se, upper, upper_se, gap, gap_se, len(found))


def _mean(values: Vector) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


def base_of(model: Any, target: Any, statistics: Vector, n_events: float) -> Published:
    """The posterior of statistics of `n_events`, scaled down to what `EVENTS` for each parameter would tell."""
    return density_of(model.posterior(model.scale(statistics, weight_of(target, n_events))), target)


def weight_of(target: Any, n_events: float) -> float:
    """By how much statistics of `n_events` are scaled down for the base."""
    return min(1.0, EVENTS * int(target.dimension) / max(n_events, 1.0))


def simulated(
    model: Any, target: Any, base: Published, events: Matrix, rng: np.random.Generator
) -> tuple[Vector, NDArray[np.float64]]:
    """The exact draw theta (d,), and events (n, fields) with responses that are drawn from it.

    What the model does not explain is as in `events`. Raises TypeError if the model cannot simulate.
    """
    if not hasattr(model, "simulate"):
        raise TypeError(f"{model.kind} cannot simulate events: its class has no `simulate`, see docs/own-models.md")
    theta = base.sample(rng, 1)
    return theta[0], np.asarray(model.simulate(rng, target.constrain(theta), events)[0], dtype=np.float64)
