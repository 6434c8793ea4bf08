"""Firefly Monte Carlo: its joint density, brightness and draws against exact ones, and its classical mistakes."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.models.targets.target import Quadratic
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import packing
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.kernels import brightness, flymc
from streaminfer.sampling.kernels.brightness import Brightness
from streaminfer.spec import parse_spec
from tests.sampling.test_resuming import prepared, spec_of

KINDS = ("logistic_regression", "probit_regression")
UPDATES = {"implicit": flymc.implicit, "explicit": flymc.explicit}


def density_of(kind: str, n: int, d: int = 2, seed: int = 0, scale: float = 1.0) -> Density:
    model = {"kind": kind, "features": [f"x{i}" for i in range(d)], "target": "y", "intercept": False}
    spec = parse_spec({"name": "demo", "model": model, "inference": {"method": "mh"}})
    rng = np.random.default_rng(seed)
    features = scale * rng.normal(size=(n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-features.sum(axis=1)))
    return Density(spec.target, spec.target.rows(np.column_stack([features, y])))


def subsets(n: int) -> list[np.ndarray]:
    every = chain.from_iterable(combinations(range(n), k) for k in range(n + 1))
    return [np.array(each, dtype=np.int64) for each in every]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [1.0, 0.25])
def test_the_sum_over_all_brightness_is_the_posterior(kind: str, share: float) -> None:
    """Also with a part of the prior, as a subposterior has it."""
    density = replace(density_of(kind, 7), share=share)
    bounds = flymc.bound(density, flymc.tangents(density, np.array([0.3, -0.2])))
    for theta in ([0.0, 0.0], [1.0, -2.0], [0.3, -0.2 + 1e-3]):
        at = np.array(theta)
        parts = [flymc.Given(density, bounds, Brightness(7, each)).log_density(at[None])[0] for each in subsets(7)]
        assert np.logaddexp.reduce(parts) == pytest.approx(density.log_density(at[None])[0], rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_joint_density(kind: str) -> None:
    density = density_of(kind, 9)
    given = flymc.Given(density, flymc.bound(density, np.full(9, 1.5)), Brightness(9, np.array([0, 3, 4, 8])))
    theta, h = np.array([[0.7, -0.4]]), 1e-6
    numeric = [(given.log_density(theta + h * e) - given.log_density(theta - h * e))[0] / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(given.gradient(theta)[0], numeric, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_an_events_light_does_not_depend_on_the_others(kind: str) -> None:
    """A chain that was restored computes them for other events together."""
    density = density_of(kind, 500, d=13)
    bounds, theta = flymc.bound(density, np.full(500, 1.5)), np.linspace(-1, 1, 13)
    every = flymc.lit(density, bounds, np.arange(500), theta).lights
    for some in (np.array([7]), np.arange(3, 400, 7), np.arange(499)):
        np.testing.assert_array_equal(flymc.lit(density, bounds, some, theta).lights, every[some])


@pytest.mark.parametrize("gap", [1e-17, 1e-9, 1e-3, 1.0, 20.0, 39.9, 40.1, 800.0])
def test_lights_are_right_for_any_gap(gap: float) -> None:
    import mpmath

    assert flymc._log_expm1(np.array([gap]))[0] == pytest.approx(float(mpmath.log(mpmath.expm1(gap))), rel=1e-14)


class World:
    """Many events at one theta, and what the law says of how many are bright, in groups by their chance."""

    def __init__(self) -> None:
        self.density = density_of("logistic_regression", 60_000, d=1, scale=2.0)
        self.bounds = flymc.bound(self.density, np.full(60_000, 1.5))
        self.theta = np.array([1.7])
        chances = -np.expm1(-flymc.lit(self.density, self.bounds, np.arange(60_000), self.theta).gaps)
        order = np.argsort(chances)
        self.groups = np.array_split(order, 12)
        self.chances = chances

    def z(self, bright: Brightness) -> float:
        """The worst group's count of bright events, in standard errors from its law."""
        is_bright = np.zeros(len(self.chances))
        is_bright[bright.indices] = 1
        return max(
            float(
                abs((is_bright - self.chances)[each].sum()) / np.sqrt((self.chances * (1 - self.chances))[each].sum())
            )
            for each in self.groups
        )


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def test_brightness_is_drawn_by_its_law(world: World) -> None:
    assert world.z(flymc.drawn(world.density, world.bounds, world.theta, np.random.default_rng(1))) < 5.5


@pytest.mark.parametrize("rule", UPDATES)
@pytest.mark.parametrize("fraction", [0.02, 0.3, 1.0])
def test_updates_keep_the_law_of_brightness(rule: str, fraction: float, world: World) -> None:
    rng = np.random.default_rng(2)
    now = flymc.drawn(world.density, world.bounds, world.theta, rng)
    for _ in range(3):
        now, read = UPDATES[rule](world.density, world.bounds, world.theta, now, fraction, rng)
        assert world.z(now) < 5.5
        assert read <= 1.2 * fraction * now.n
    assert (np.diff(now.indices) > 0).all()


@pytest.mark.parametrize("rule", UPDATES)
def test_updates_reach_the_law_from_darkness(rule: str, world: World) -> None:
    rng, now = np.random.default_rng(3), brightness.none(60_000)
    for _ in range(12):
        now, _ = UPDATES[rule](world.density, world.bounds, world.theta, now, 0.7, rng)
    assert world.z(now) < 5.5


def offers_to_those_that_went_dark(density: Any, bounds: Any, theta: Any, now: Any, q: float, rng: Any) -> Brightness:
    """A mutant: an event that just went dark is offered its light in the same step."""
    stay = np.log1p(-rng.random(len(now.lights))) >= np.log(q) - now.lights
    left = Brightness(now.n, now.indices[stay], now.lights[stay])
    offered = brightness.thinned(now.n, q, rng)
    offered = offered[~brightness.among(offered, left.indices)[0]]
    new = flymc.lit(density, bounds, offered, theta).lights
    take = np.log1p(-rng.random(len(new))) < new - np.log(q)
    return Brightness(now.n, np.sort(np.concatenate([left.indices, offered[take]])))


def offers_without_their_chance(density: Any, bounds: Any, theta: Any, now: Any, q: float, rng: Any) -> Brightness:
    """A mutant: an offer is taken with the chance light, as if all dark events had one."""
    stay = np.log1p(-rng.random(len(now.lights))) >= np.log(q) - now.lights
    offered = brightness.thinned(now.n, q, rng)
    offered = offered[~brightness.among(offered, now.indices)[0]]
    new = flymc.lit(density, bounds, offered, theta).lights
    take = np.log1p(-rng.random(len(new))) < new
    return Brightness(now.n, np.sort(np.concatenate([now.indices[stay], offered[take]])))


@pytest.mark.parametrize("mutant", [offers_to_those_that_went_dark, offers_without_their_chance])
def test_classical_mistakes_break_the_law(mutant: Any, world: World) -> None:
    rng = np.random.default_rng(2)
    now = flymc.drawn(world.density, world.bounds, world.theta, rng)
    assert world.z(mutant(world.density, world.bounds, world.theta, now, 0.7, rng)) > 10


@pytest.mark.parametrize("chance", [1e-3, 0.2, 1.0])
def test_thinned_indices_are_independent_with_their_chance(chance: float) -> None:
    rng, n, repeats = np.random.default_rng(4), 400, 4000
    counts, pairs = np.zeros(n), 0.0
    for _ in range(repeats):
        found = brightness.thinned(n, chance, rng)
        counts[found] += 1
        pairs += len(found) * (len(found) - 1) / 2
    spread = np.sqrt(repeats * chance * (1 - chance)) + 1e-12
    assert np.abs((counts - repeats * chance) / spread).max() < 6
    expected = repeats * n * (n - 1) / 2 * chance**2
    assert abs(pairs - expected) <= 5.5 * np.sqrt(repeats * (n * chance) ** 3) + 5.5 * np.sqrt(expected)


def test_brightness_is_packed_into_bits() -> None:
    found = Brightness(1000, np.array([0, 31, 32, 500, 999]), np.zeros(5))
    numbers = packing.flatten(found)
    assert len(numbers) == 32
    again = packing.unflatten(brightness.none(1000), numbers)
    np.testing.assert_array_equal(again.indices, found.indices)
    for wrong in (numbers + 0.5, np.where(np.arange(32) == 31, 2.0**31, numbers), -numbers):
        with pytest.raises(ValueError, match="do not say which of 1000 events"):
            packing.unflatten(brightness.none(1000), wrong)


@pytest.mark.parametrize(
    ("kind", "rule", "langevin", "tuned"),
    [
        ("logistic_regression", "implicit", False, True),
        pytest.param("logistic_regression", "explicit", False, False, marks=pytest.mark.long),
        pytest.param("logistic_regression", "implicit", True, False, marks=pytest.mark.long),
        ("probit_regression", "explicit", True, False),
        pytest.param("probit_regression", "implicit", False, True, marks=pytest.mark.long),
    ],
)
def test_draws_and_brightness_are_those_of_quadrature(kind: str, rule: str, langevin: bool, tuned: bool) -> None:
    density = density_of(kind, 6, d=1, seed=3)
    grid = np.linspace(-6, 6, 4001)
    logs = density.log_density(grid[:, None])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = float(weights @ grid)
    var = float(weights @ (grid - mean) ** 2)
    at = flymc.tangents(density, np.array([mean])) if tuned else np.full(6, 0.8)
    bounds = flymc.bound(density, at)
    gaps = np.array([flymc.lit(density, bounds, np.arange(6), np.array([x])).gaps for x in grid])
    expected = float(weights @ -np.expm1(-gaps).sum(axis=1))
    rng, steps = np.random.default_rng(5), 6000
    state = flymc.init(
        density, bounds, np.array([mean]), 1.5 * var if langevin else 1.0, rng, np.array([[var]]), langevin
    )
    path, bright = np.empty(steps), np.empty(steps)
    for t in range(steps):
        state, info = flymc.step(density, bounds, state, rng, flymc.Update(rule, 0.3), preconditioning.none(1))
        path[t], bright[t] = state.walk.position[0], info.n_bright
    for values, truth in ((path, mean), ((path - mean) ** 2, var), (bright, expected)):
        batches = values.reshape(200, -1).mean(axis=1)
        assert abs(values.mean() - truth) < 5.5 * batches.std(ddof=1) / np.sqrt(200)


def test_a_broken_bound_stops_the_chain_and_names_the_event() -> None:
    made = prepared(spec_of("logistic_regression", "flymc", {}))
    chain_now = chains.begin(made, None)
    each = made.bound.each
    c = each.c.copy()
    c[17] += 5
    broken = flymc.Bound(Quadratic(each.a, each.b, c), made.bound.collapsed)
    wrong = replace(
        made,
        of_data=made.of_data._replace(bound=broken),
        setup=made.setup._replace(bound=np.r_[1.0, made.setup.bound[1:]]),
    )
    with pytest.raises(chains.Diverged, match=r"lower_bound: that of event 17 of the segment.* no draw can be trusted"):
        chains.advance(wrong, chain_now)


def test_bounds_at_the_mode_leave_few_events_bright() -> None:
    """Their number does not grow with N, and neither does what a step reads."""
    read = {}
    for n in (2000, 32_000):
        rng = np.random.default_rng(6)
        x = rng.normal(size=(n, 2))
        y = rng.random(n) < 1 / (1 + np.exp(-x.sum(axis=1)))
        events = [{"a": float(a), "b": float(b), "y": int(c)} for (a, b), c in zip(x, y, strict=True)]
        model = {"kind": "logistic_regression", "features": ["a", "b"], "target": "y"}
        spec = parse_spec(
            {"name": "demo", "model": model, "inference": {"method": "flymc", "draws": 300, "warmup": 300}}
        )
        made = prepared(spec, events=events)
        now = chains.begin(made, None)
        while not now.done:
            now, _ = chains.advance(made, now)
        read[n] = now.counters.n_likelihood / now.counters.n_proposed
        assert now.counters.n_setup > n
    assert read[32_000] < 1.5 * read[2000] < 200
