"""Decisions on subsets that never stop early are those of mh, bit by bit; those that do are seldom wrong, and cheap."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.sampling.kernels import mh, subsampled_mh
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Stopping
from streaminfer.sampling.subsets import deciding, rules
from streaminfer.sampling.subsets.proxy import BrokenBound
from streaminfer.sampling.subsets.shuffling import Shuffled
from tests.models.targets.cases import ALL, case
from tests.sampling import joint
from tests.sampling.simulating import world
from tests.sampling.subsets.test_poisson_mh import TooSteep
from tests.sampling.subsets.worlds import at_mode, density, moments, proxy_at, with_intercept, z_scores

KEY = Key(5, "steps")
RULES = [(rule, order) for rule in rules.RULES for order in (0, 2)]


def chain(made: Density, by: subsampled_mh.Subsets, start: np.ndarray, count: int) -> np.ndarray:
    state = subsampled_mh.init(start, 0.05 * np.eye(len(start)))
    state, _, _ = subsampled_mh.steps(by, state, KEY.generator(0), KEY.generator(1), count, adapting=True)
    return subsampled_mh.steps(by, state, KEY.generator(2), KEY.generator(3), count)[1]


def exact(made: Density, start: np.ndarray, count: int) -> np.ndarray:
    state = mh.init(made, start, 0.05 * np.eye(len(start)))
    state, _, _ = mh.steps(made, state, KEY.generator(0), count, adapting=True)
    return mh.steps(made, state, KEY.generator(2), count)[1]


@pytest.mark.parametrize(("rule", "order"), RULES)
@pytest.mark.parametrize(("error", "first"), [(0.0, 16), (0.2, 150), (0.2, 1000)], ids=["error 0", "N", "more than N"])
def test_decisions_on_all_events_are_those_of_mh(rule: str, order: int, error: float, first: int) -> None:
    made = density(150, 3, share=0.5)
    by = subsampled_mh.subsets(at_mode(made, order)[0], Stopping(rule, error), first)
    np.testing.assert_array_equal(chain(made, by, np.zeros(3), 60), exact(made, np.zeros(3), 60))


@pytest.mark.parametrize("name", ["cloud", "line", "clouds", "counts"])
def test_models_without_bounds(name: str) -> None:
    example = next((each for each in ALL if each.name == name), ALL[2])
    made = case(example, n=120)
    target = Density(made.target, made.rows)
    start = made.theta[0]
    by = subsampled_mh.subsets(proxy_at(target, np.zeros(len(start)), 0, bounded=False), Stopping("t", 0.0), 16)
    np.testing.assert_array_equal(chain(target, by, start, 30), exact(target, start, 30))


def test_an_early_stop_is_not_mh() -> None:
    """The check above sees a rule that stops."""
    made = density(150, 3)
    by = subsampled_mh.subsets(at_mode(made, 0)[0], Stopping("t", 0.4), 16)
    assert not np.array_equal(chain(made, by, np.zeros(3), 60), exact(made, np.zeros(3), 60))


@pytest.mark.parametrize("rule", rules.BOUNDS)
@pytest.mark.parametrize("growth", [1.0, 2.0])
def test_each_decision_is_that_of_all_events(rule: str, growth: float) -> None:
    """But for a chance of 1%: of 400 decisions 17 wrong ones would be 5.5 deviations too many."""
    made = density(3000, 2)
    proxy, root = at_mode(made, 2)
    by = subsampled_mh.subsets(proxy, Stopping(rule, 0.01, growth), 300)
    rng, wrong, read = KEY.generator(4), 0, 0
    for _ in range(400):
        here, there = proxy.expansion.anchor + (root @ rng.standard_normal((2, 2))).T
        level = math.log1p(-rng.random())
        found = subsampled_mh.decide(by, subsampled_mh.init(here), there, level, rng)
        logs = made.log_density(np.stack([here, there]))
        wrong += (level < found.log_alpha) != (level < logs[1] - logs[0])
        read += found.n_read
    assert wrong < 17
    assert read < 400 * 3000


def test_control_variates_make_it_sublinear() -> None:
    """Two weights: under 6% of 10,000 events, and under 1% of 100,000."""
    parts = {}
    for n, order in ((10_000, 2), (100_000, 2), (10_000, 0)):
        made = with_intercept(n)
        (anchored, root), (proxy, _) = at_mode(made, 2), at_mode(made, order)
        by = subsampled_mh.subsets(proxy, Stopping("bernstein_serfling", 0.01), 128)
        state = subsampled_mh.init(anchored.expansion.anchor, root @ root.T)
        info = subsampled_mh.steps(by, state, KEY.generator(0), KEY.generator(1), 100)[2]
        parts[n, order] = info.n_read / (100 * n)
    assert parts[10_000, 2] < 0.06
    assert parts[100_000, 2] < 0.01
    assert parts[10_000, 0] > 0.9  # without them there is nothing to gain


@pytest.mark.parametrize(
    ("rule", "order", "error"), [pytest.param("bernstein_serfling", 2, 0.01, marks=pytest.mark.long), ("t", 1, 0.01)]
)
def test_moments_are_near_those_of_quadrature(rule: str, order: int, error: float) -> None:
    made = density(60)
    proxy, root = at_mode(made, order)
    by = subsampled_mh.subsets(proxy, Stopping(rule, error), 10)
    state = subsampled_mh.init(np.zeros(1), root @ root.T)
    path = subsampled_mh.steps(by, state, KEY.generator(5), KEY.generator(6), 8_000)[1]
    assert np.abs(z_scores(path, moments(made))).max() < 5.5


def test_a_lax_test_is_seen() -> None:
    """A mutant: a t-test that stops while it is more likely wrong than 40%; stopping while rho > eps does worse."""
    made = density(60)
    proxy, root = at_mode(made, 0)
    by = subsampled_mh.subsets(proxy, Stopping("t", 0.45), 4)
    state = subsampled_mh.init(np.zeros(1), root @ root.T)
    path = subsampled_mh.steps(by, state, KEY.generator(5), KEY.generator(6), 8_000)[1]
    assert np.abs(z_scores(path, moments(made))).max() > 5.5


def _kernel(error: float) -> joint.Kernel:
    def move(made: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        by = subsampled_mh.subsets(proxy_at(made, np.zeros(2), 0), Stopping("t", error), 2)
        state = subsampled_mh.init(theta, 0.5 * np.eye(2))
        return subsampled_mh.steps(by, state, rng, rng, 4)[0].position

    return move


@pytest.mark.long
def test_the_joint_test_sees_a_lax_rule() -> None:
    assert np.abs(joint.z_scores(world("logistic_regression"), _kernel(0.0), 4000, seed=1)).max() < 5.5
    assert np.abs(joint.z_scores(world("logistic_regression"), _kernel(0.5), 4000, seed=1)).max() > 5.5


def test_a_broken_bound_names_the_event() -> None:
    right = density(50, 2)
    made = Density(TooSteep(right.target.model), right.rows)
    by = subsampled_mh.subsets(proxy_at(made, np.zeros(2), 2), Stopping("hoeffding", 0.1), 10)
    state = subsampled_mh.init(np.zeros(2), np.eye(2))
    with pytest.raises(BrokenBound, match=r"^derivative_bounds: the remainder of event \d+ of the segment"):
        subsampled_mh.steps(by, state, KEY.generator(0), KEY.generator(1), 50)


def test_equal_events_are_all_read() -> None:
    """Their differences do not vary, so Student's t is never sure."""
    right = density(50, 2)
    made = replace(right, rows=np.tile(right.rows[:1], (50, 1)))
    by = subsampled_mh.subsets(proxy_at(made, np.zeros(2), 0, bounded=False), Stopping("t", 0.1), 10)
    state = subsampled_mh.init(np.zeros(2), np.eye(2))
    _, path, info = subsampled_mh.steps(by, state, KEY.generator(0), KEY.generator(1), 20)
    assert info.n_read == 20 * 50
    assert np.isfinite(path).all()


def test_each_decision_has_a_subset_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made, seen = density(100, 2), []
    take = Shuffled.take
    monkeypatch.setattr(Shuffled, "take", lambda self, *given: (seen.append(take(self, *given)), seen[-1])[1])
    by = subsampled_mh.subsets(at_mode(made, 0)[0], Stopping("t", 0.4), 10)
    subsampled_mh.steps(by, subsampled_mh.init(np.zeros(2), np.eye(2)), KEY.generator(0), KEY.generator(1), 5)
    firsts = [tuple(each.tolist()) for each in seen if len(each) == 10]
    assert len(set(firsts)) == len(firsts) >= 5
    assert deciding.Found(1, 0.0, enough=True).enough
