"""Firefly Monte Carlo (Maclaurin & Adams 2014): exact draws that read only the bright events of each step.

Each event has a lower bound B_n <= L_n of its likelihood, and a variable that says whether it is bright. The joint
density is

    p(theta) prod_n B_n(theta) prod_{bright n} (L_n(theta) - B_n(theta)) / B_n(theta),

whose margin is the posterior. The product of all bounds is one quadratic form in theta: dark events cost nothing. The
light of an event is log (L - B) / B = log (exp(gap) - 1), where gap = log L - log B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.models.targets.target import Quadratic
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import mala, mh
from streaminfer.sampling.kernels.brightness import Brightness, Indices, among, thinned
from streaminfer.sampling.subsets.proxy import BrokenBound

_ROUNDING: Final = 1e-9
"""How far below 0, relative to its terms, a gap may be computed."""
_SMALLEST: Final = 1e-300
_WIDE: Final = 40.0
"""From here on log (exp(gap) - 1) is the gap, to the last digit."""
Walk = mh.State | mala.State
"""The chain of theta given which events are bright: a random walk, or steps along gradients."""


class Collapsed(NamedTuple):
    """The sum of all bounds: second (d, d), linear (d,) and constant."""

    second: Matrix
    linear: Vector
    constant: float

    def value(self, theta: Vector) -> float:
        return float(theta @ self.second @ theta + self.linear @ theta) + self.constant

    def gradient(self, theta: Vector) -> Vector:
        return 2 * (self.second @ theta) + self.linear


@dataclass(frozen=True, eq=False)
class Bound:
    """A lower bound of the likelihood of every row: a quadratic in each margin, and their sum."""

    each: Quadratic
    collapsed: Collapsed


def tangents(density: Density, theta: Vector) -> Vector:
    """The margins (n,) at theta, where bounds then touch: those of the mode make nearly all events dark."""
    found = np.empty(density.n)
    for part in parts.slices(density.rows):
        found[part] = density.rows[part] @ theta
    return found


def collapse(density: Density, each: Quadratic) -> Collapsed:
    """The sum of bounds of all rows: one pass."""
    d = density.dimension
    second, linear = np.zeros((d, d)), np.zeros(d)
    for part in parts.slices(density.rows):
        rows = np.asarray(density.rows[part])
        second += parts.weighted_gram(rows, each.a[part])
        linear += each.b[part] @ rows
    return Collapsed(second, linear, float(each.c.sum()))


def bound(density: Density, at: Vector) -> Bound:
    """Bounds that touch at the margins `at` (n,)."""
    each = density.target.lower_bound(at)
    return Bound(each, collapse(density, each))


class Lit(NamedTuple):
    """Some rows at one theta: margins, gaps and lights, (m,) each."""

    margins: Vector
    gaps: Vector
    lights: Vector


def lit(density: Density, bounds: Bound, indices: Indices, theta: Vector) -> Lit:
    """The lights of some rows at theta (d,); raises BrokenBound.

    Products are summed row by row: the result for a row must not depend on which others are asked for with it.
    """
    target: Margins = density.target
    margins = (density.rows[indices] * theta).sum(axis=1)
    log = target.ascent(margins).log
    below = Quadratic(bounds.each.a[indices], bounds.each.b[indices], bounds.each.c[indices])(margins)
    gaps = log - below
    wrong = np.flatnonzero(gaps < -_ROUNDING * (1 + np.abs(log) + np.abs(below)))
    if len(wrong):
        first = wrong[0]
        raise BrokenBound(
            f"lower_bound: that of event {indices[first]} of the segment, counted from 0, is {below[first]:.6g}, above "
            f"its log likelihood {log[first]:.6g}: bounds are wrong, no draw can be trusted; correct them"
        )
    return Lit(margins, gaps, _log_expm1(gaps))


def _log_expm1(gaps: Vector) -> Vector:
    """log (exp(gap) - 1) of gaps that rounding may have made a little negative."""
    near = np.minimum(np.maximum(gaps, _SMALLEST), _WIDE)
    return np.log(np.expm1(near)) + (np.maximum(gaps, _WIDE) - _WIDE)


@dataclass(eq=False)
class Given:
    """The density of theta given which events are bright: what `mh` and `mala` take for a density."""

    density: Density
    bounds: Bound
    bright: Brightness
    seen: dict[bytes, Lit] = field(default_factory=dict)
    """What was found at the places that were asked for."""

    @property
    def n(self) -> int:
        """How many events an evaluation reads."""
        return len(self.bright.indices)

    def at(self, theta: Vector) -> Lit:
        key = theta.tobytes()
        if key not in self.seen:
            self.seen[key] = lit(self.density, self.bounds, self.bright.indices, theta)
        return self.seen[key]

    def log_density(self, theta: Matrix) -> Vector:
        """Of one theta (1, d): (1,)."""
        with np.errstate(all="ignore"):
            found = self.joint(theta[0], self.at(theta[0]).lights)
        return np.array([-math.inf if math.isnan(found) else found])

    def joint(self, theta: Vector, lights: Vector) -> float:
        """The log density of theta and of which events are bright."""
        prior = self.density.share * float(self.density.target.log_prior(theta[None])[0])
        return prior + self.bounds.collapsed.value(theta) + float(lights.sum())

    def gradient(self, theta: Matrix) -> Matrix:
        """Of one theta (1, d): (1, d). The slope of a light is that of its gap over 1 - exp(-gap)."""
        found, target = self.at(theta[0]), self.density.target
        a, b = self.bounds.each.a[self.bright.indices], self.bounds.each.b[self.bright.indices]
        with np.errstate(all="ignore"):
            slopes = target.ascent(found.margins).slope - (2 * a * found.margins + b)
            weights = slopes / -np.expm1(-np.maximum(found.gaps, _SMALLEST))
            prior = self.density.share * target.prior_gradient(theta)[0]
        total = prior + self.bounds.collapsed.gradient(theta[0])
        return np.asarray(total + weights @ self.density.rows[self.bright.indices], dtype=np.float64)[None]


class Update(NamedTuple):
    """How brightness changes. Each step `implicit` offers dark events their light, each with the chance `fraction`;
    `explicit` draws that part of all events anew."""

    rule: str
    fraction: float


class State(NamedTuple):
    """The chain of theta given the bright events, and which they are."""

    walk: Walk
    bright: Brightness


class Info(NamedTuple):
    """Proposals accepted and made, likelihoods and gradients of single events that they took, and bright events."""

    n_accepted: int = 0
    n_proposed: int = 0
    n_likelihood: int = 0
    n_gradient: int = 0
    n_bright: int = 0


def drawn(density: Density, bounds: Bound, theta: Vector, rng: np.random.Generator) -> Brightness:
    """Which events are bright at theta, drawn anew: each with the chance 1 - B / L. It reads all data."""
    found, lights = [], []
    for part in parts.slices(density.rows):
        indices = np.arange(part.start, min(part.stop, density.n))
        at = lit(density, bounds, indices, theta)
        chosen = rng.random(len(indices)) < -np.expm1(-at.gaps)
        found.append(indices[chosen])
        lights.append(at.lights[chosen])
    empty = np.empty(0, dtype=np.int64)
    return Brightness(density.n, np.concatenate([empty, *found]), np.concatenate([np.empty(0), *lights]))


def implicit(
    density: Density, bounds: Bound, theta: Vector, now: Brightness, fraction: float, rng: np.random.Generator
) -> tuple[Brightness, int]:
    """Bright events may go dark with the chance q / light, those that were dark are offered light with the chance q
    and take it with the chance light / q. The events read are those that were offered it."""
    lights = _known(density, bounds, theta, now)
    log_q = math.log(fraction)
    stay = np.log1p(-rng.random(len(lights))) >= log_q - lights
    offered = thinned(now.n, fraction, rng)
    offered = offered[~among(offered, now.indices)[0]]  # as they were: each event has one transition a step
    new = lit(density, bounds, offered, theta).lights
    take = np.log1p(-rng.random(len(new))) < new - log_q
    return _joined(now.n, now.indices[stay], lights[stay], offered[take], new[take]), len(offered)


def explicit(
    density: Density, bounds: Bound, theta: Vector, now: Brightness, fraction: float, rng: np.random.Generator
) -> tuple[Brightness, int]:
    """A part of all events, chosen without looking, is drawn anew given theta. Of dark ones the likelihood is read."""
    lights = _known(density, bounds, theta, now)
    chosen = thinned(now.n, fraction, rng)
    was, places = among(chosen, now.indices)
    found = np.empty(len(chosen))
    found[was] = lights[places[was]]
    found[~was] = lit(density, bounds, chosen[~was], theta).lights
    # 1 - B / L = 1 / (1 + exp(-light))
    becomes = rng.random(len(chosen)) * (1 + np.exp(-np.minimum(found, 700.0))) < 1
    kept = np.ones(len(now.indices), dtype=np.bool_)
    kept[places[was]] = False
    return _joined(now.n, now.indices[kept], lights[kept], chosen[becomes], found[becomes]), int((~was).sum())


_UPDATES: Final = {"implicit": implicit, "explicit": explicit}


def _known(density: Density, bounds: Bound, theta: Vector, now: Brightness) -> Vector:
    return now.lights if now.lights is not None else lit(density, bounds, now.indices, theta).lights


def _joined(n: int, first: Indices, lights: Vector, second: Indices, more: Vector) -> Brightness:
    every = np.concatenate([first, second])
    order = np.argsort(every)
    return Brightness(n, every[order], np.concatenate([lights, more])[order])


def init(
    density: Density,
    bounds: Bound,
    theta: Vector,
    size: float,
    rng: np.random.Generator,
    cov: Matrix | None = None,
    langevin: bool = False,
) -> State:
    """A chain at theta (d,) with brightness drawn anew. Its random walk begins with the covariance `cov` (d, d)."""
    bright = drawn(density, bounds, theta, rng)
    given = Given(density, bounds, bright)
    return State(mala.init(given, theta, size) if langevin else mh.init(given, theta, cov, size), bright)


def step(
    density: Density,
    bounds: Bound,
    state: State,
    rng: np.random.Generator,
    update: Update,
    by: Preconditioner,
    adapting: bool = False,
    accept: float | None = None,
    directions: bool = True,
) -> tuple[State, Info]:
    """theta given the bright events, then the bright events given theta.

    `directions` says whether a random walk learns its covariance, and not only its scale.
    """
    given = Given(density, bounds, state.bright)
    walk, moved = _moved(given, state.walk, rng, by, adapting, accept, directions)
    theta = walk.position
    known = replace(state.bright, lights=given.at(theta).lights) if moved.n_accepted else state.bright
    after, n_offered = _UPDATES[update.rule](density, bounds, theta, known, update.fraction, rng)
    now = Given(density, bounds, after)
    n_likelihood, n_gradient = given.n + n_offered, moved.n_gradient
    walk = walk._replace(log_density=now.joint(theta, _known(density, bounds, theta, after)))
    if isinstance(walk, mala.State):
        walk, n_gradient = walk._replace(gradient=now.gradient(theta[None])[0]), n_gradient + now.n
    return State(walk, after), Info(moved.n_accepted, 1, n_likelihood, n_gradient, now.n)


def _moved(
    given: Given,
    walk: Walk,
    rng: np.random.Generator,
    by: Preconditioner,
    adapting: bool,
    accept: float | None,
    directions: bool,
) -> tuple[Walk, mala.Info]:
    if isinstance(walk, mala.State):
        return mala.step(given, walk, rng, by, adapting, accept or mala.ACCEPT)
    after, info = mh.step(given, walk, rng, None, adapting, accept or mh.ACCEPT, directions)
    return after, mala.Info(*info, n_gradient=0)


def steps(
    density: Density,
    bounds: Bound,
    state: State,
    rng: np.random.Generator,
    count: int,
    update: Update,
    by: Preconditioner,
    adapting: bool = False,
    accept: float | None = None,
    directions: bool = True,
) -> tuple[State, Matrix, Info]:
    """A block of steps: the state after it, positions (count, d) and what it took."""
    positions, total = np.empty((count, density.dimension)), Info()
    for t in range(count):
        state, info = step(density, bounds, state, rng, update, by, adapting, accept, directions)
        positions[t] = state.walk.position
        total = Info(*(a + b for a, b in zip(total, info, strict=True)))
    return state, positions, total
