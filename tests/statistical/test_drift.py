"""Drift alarms of whole models on data that do not follow them: how many without drift, how late with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streaminfer import parse_spec
from streaminfer.variational.base import Base, prior
from streaminfer.variational.drift import watching
from streaminfer.variational.drift.watching import Scored, State
from streaminfer.variational.forgetting.decay import ByEvents, Clocks, total
from streaminfer.variational.methods import svb
from tests.made import new_increment

Draw = Callable[[np.random.Generator, int], Any]
Sizes = Callable[[np.random.Generator, int], int]

FRESH = 4
"""Minibatches between two snapshots: a worker's base is as old as that."""
WEIGHTS = np.linspace(-1, 1, 9)


def linear(noise: Draw) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Any:
        x = rng.normal(size=(n, 8))
        return np.column_stack([x, WEIGHTS[0] + x @ WEIGHTS[1:] + noise(rng, n)])

    return draw


MODELS: dict[str, dict[str, Any]] = {
    "gaussian": {"kind": "gaussian", "fields": ["y"]},
    "bernoulli": {"kind": "bernoulli", "field": "y"},
    "poisson": {"kind": "poisson", "field": "k"},
    "linear": {"kind": "linear_regression", "features": [f"x{i}" for i in range(8)], "target": "y"},
}

ALL: Sizes = lambda rng, t: 64  # noqa: E731
UNEVEN: Sizes = lambda rng, t: int(rng.integers(1, 65))  # noqa: E731
NIGHTS: Sizes = lambda rng, t: 64 if t // 300 % 2 == 0 else int(rng.integers(1, 17))  # noqa: E731
ROWS: Sizes = lambda rng, t: 2 ** int(rng.integers(4, 10))  # noqa: E731

CASES: dict[str, tuple[str, Draw, Sizes, float | None]] = {
    "gaussian as it should be": ("gaussian", lambda rng, n: rng.normal(size=n), ALL, None),
    "gaussian, tails of t3, nights": ("gaussian", lambda rng, n: rng.standard_t(3, n), NIGHTS, None),
    "gaussian, no moments": ("gaussian", lambda rng, n: rng.standard_cauchy(n), ALL, None),
    "gaussian, skewed, records of any size": ("gaussian", lambda rng, n: np.exp(rng.normal(size=n)), ROWS, None),
    "bernoulli, rare": ("bernoulli", lambda rng, n: rng.random(n) < 0.001, UNEVEN, None),
    "poisson, overdispersed": ("poisson", lambda rng, n: rng.negative_binomial(1, 0.1, n), UNEVEN, None),
    "linear, tails of t3": ("linear", linear(lambda rng, n: rng.standard_t(3, n)), UNEVEN, None),
    "linear, forgets as fast as blocks come": ("linear", linear(lambda rng, n: rng.normal(size=n)), ALL, 200.0),
}


def scores(
    model: str, draw: Callable[[np.random.Generator, int, int], Any], sizes: Sizes, n: int, half_life: float | None,
    rng: np.random.Generator,
) -> list[Scored]:  # fmt: skip
    """What n minibatches score, each on a base a few minibatches old."""
    made = parse_spec({"name": "demo", "model": MODELS[model]}).model
    rule = ByEvents(half_life or 1e15)
    clocks: Clocks = {}
    base, at, found = prior(made), 0, []
    for t in range(n):
        size = sizes(rng, t)
        events = np.asarray(draw(rng, size, at), dtype=np.float64).reshape(size, -1)
        done = svb.step(made, base, events, rule.weights(size, None))
        at += size
        change = new_increment(
            begin=at - size,
            end=at,
            n_events=size,
            score=done.score,
            statistics=done.statistics,
        )
        clocks = rule.fold(made, clocks, change)
        if t % FRESH == FRESH - 1:
            held = total(made, clocks)
            base = Base(t, at, held, made.posterior(held))
        found.append(Scored(0, at, size, done.score))
    return found


def alarms(stream: list[Scored], block_events: int, budget: float) -> list[int]:
    """Events at each alarm."""
    state, found = State(block_events), []
    for scored in stream:
        before, state = state, watching.step(state, scored, budget, scored.end)
        if state.n_alarms > before.n_alarms:
            found.append(scored.end)
    return found


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_alarms_without_drift_stay_in_the_budget(case: str) -> None:
    """Their number is at most events / budget on average, and no more scattered than Poisson's. Five of its standard
    deviations more come in less than one of 100,000 runs."""
    model, draw, sizes, half_life = CASES[case]
    budget = 1e4
    stream = scores(model, lambda rng, n, _: draw(rng, n), sizes, 5000, half_life, np.random.default_rng(21))
    found = len(alarms(stream, 64, budget))
    allowed = stream[-1].end / budget
    print(f"{case}: {found} alarms, {allowed:.0f} allowed")
    assert found <= allowed + 5 * math.sqrt(allowed)


@pytest.mark.long
def test_dependence_between_blocks_breaks_the_budget_and_longer_blocks_restore_it() -> None:
    """Outside the assumption: scores of minibatches of 16 events with a correlation of 0.9 from each to the next."""
    rng, level, stream = np.random.default_rng(5), 0.0, []
    for i in range(40_000):
        level = 0.9 * level + math.sqrt(1 - 0.9**2) * rng.normal()
        stream.append(Scored(0, 16 * (i + 1), 16, 20 * level))
    allowed = stream[-1].end / 1e4
    found = {block: len(alarms(stream, block, 1e4)) for block in (16, 128, 1024)}
    print(f"dependent: {found}, {allowed:.0f} allowed")
    assert found[16] > allowed + 5 * math.sqrt(allowed)
    assert found[1024] <= allowed + 5 * math.sqrt(allowed)


DELAYS: list[tuple[str, str, Draw, float, int]] = [
    ("gaussian, mean up by", "gaussian", lambda rng, n: rng.normal(size=n), 0.5, 40_000),
    ("gaussian, mean up by", "gaussian", lambda rng, n: rng.normal(size=n), 1.0, 6_000),
    ("gaussian, mean up by", "gaussian", lambda rng, n: rng.normal(size=n), 2.0, 2_500),
    ("linear, t3, target up by", "linear", linear(lambda rng, n: rng.standard_t(3, n)), 2.0, 12_000),
    ("linear, t3, target up by", "linear", linear(lambda rng, n: rng.standard_t(3, n)), 5.0, 4_000),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "model", "draw", "change", "most"), DELAYS)
def test_events_from_a_change_to_its_alarm(name: str, model: str, draw: Draw, change: float, most: int) -> None:
    """Block of 256, one false alarm in 1e7 events, change after 40,000; the median of five streams."""
    begin, delays = 40_000, []

    def changed(rng: np.random.Generator, n: int, at: int) -> Any:
        events = np.asarray(draw(rng, n), dtype=np.float64).reshape(n, -1)
        events[:, -1] += change * (at >= begin)
        return events

    for seed in range(5):
        n = (begin + 2 * most) // 256
        stream = scores(model, changed, lambda rng, t: 256, n, None, np.random.default_rng(seed))
        found = alarms(stream, 256, 1e7)
        assert all(at > begin for at in found), "an alarm before the change, of which there is one in 250 such streams"
        delays.append(found[0] - begin if found else math.inf)
    print(f"{name} {change}: {sorted(delays)}")
    assert np.median(delays) <= most
