"""poisson_mh has the posterior as its target: by enumeration on a grid, by quadrature, and by the joint test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from streaminfer.models.targets import remainders
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.kinds.logistic_regression import LogisticRegression
from streaminfer.sampling.kernels import mh, poisson_mh
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.subsets import fast
from streaminfer.sampling.subsets.proxy import BrokenBound, Proxy
from tests.sampling import joint
from tests.sampling.simulating import world
from tests.sampling.subsets.worlds import at_mode, density, moments, proxy_at, z_scores

KEY = Key(3, "steps")
GRID = np.array([-0.9, -0.35, 0.1, 0.6, 1.2])
CHI = 0.05
Rates = Callable[[np.ndarray, np.ndarray, float, float], tuple[np.ndarray, np.ndarray, np.ndarray]]
KINDS = ["logistic_regression", "probit_regression"]
ORDERS = [(kind, order) for kind in KINDS for order in (0, 1, 2) if (kind, order) != ("probit_regression", 0)]


class Grid:
    """The chance that a step from one place of the grid to another is accepted, summed over all minibatches."""

    def __init__(self, proxy: Proxy, rates: Rates = poisson_mh.rates, by_count: bool = False) -> None:
        self.proxy, self.rates, self.by_count = proxy, rates, by_count

    def most(self, i: int, j: int) -> float:
        before, after = (self.proxy.white(GRID[[k]]) for k in (i, j))
        return self.proxy.most(before, after)

    def is_exact(self, i: int, j: int) -> bool:
        return poisson_mh.mean_events(self.proxy.total * self.most(i, j), CHI) >= self.proxy.density.n

    def alpha(self, i: int, j: int) -> float:
        made, here, there = self.proxy.density, GRID[[i]], GRID[[j]]
        logs = made.log_density(np.stack([here, there]))
        exact = math.exp(min(0.0, logs[1] - logs[0]))
        if self.is_exact(i, j) and not self.by_count:
            return exact
        prior = made.share * np.diff(made.target.log_prior(np.stack([here, there])))[0]
        smooth = prior + self.proxy.expansion.change(here, there)
        most = self.most(i, j)
        change, bounds = self.proxy.bounded_changes(here, there, np.arange(made.n), most)
        forth, back, _ = self.rates(change, bounds, self.proxy.total * most, CHI)
        counts = np.indices((25,) * made.n).reshape(made.n, -1)
        assert (stats.poisson.sf(24, forth) < 1e-15).all()
        chances = stats.poisson.pmf(counts, forth[:, None]).prod(axis=0)
        accepted = np.exp(np.minimum(0.0, smooth + np.log(back / forth) @ counts))
        if self.by_count:
            accepted[counts.sum(axis=0) >= made.n] = exact
        return float(chances @ accepted)


def imbalance(grid: Grid) -> float:
    """The largest difference of flows there and back, as a part of all mass; 0 if the posterior is the target."""
    logs = grid.proxy.density.log_density(GRID[:, None])
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    pairs = [(i, j) for i in range(5) for j in range(i)]
    return max(abs(mass[i] * grid.alpha(i, j) - mass[j] * grid.alpha(j, i)) for i, j in pairs)


THREE = density(3)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_flows_balance_on_a_grid(order: int) -> None:
    grid = Grid(proxy_at(THREE, np.array([0.4]), order))
    sides = {grid.is_exact(i, j) for i in range(5) for j in range(i)}
    assert sides == ({True, False} if order == 0 else {False})
    assert imbalance(grid) < 1e-12


def without_half(change: np.ndarray, bounds: np.ndarray, total: float, chi: float) -> tuple[np.ndarray, ...]:
    """A mutant: phi = c M - change."""
    least = chi * total * bounds
    return least + bounds - change, least + bounds + change, least + bounds


def other_way(change: np.ndarray, bounds: np.ndarray, total: float, chi: float) -> tuple[np.ndarray, ...]:
    """A mutant: forth and back are exchanged."""
    forth, back, largest = poisson_mh.rates(change, bounds, total, chi)
    return back, forth, largest


@pytest.mark.parametrize("mutant", [without_half, other_way])
def test_wrong_rates_do_not_balance(mutant: Rates) -> None:
    assert imbalance(Grid(proxy_at(THREE, np.array([0.4]), 1), mutant)) > 1e-3


def test_deciding_on_all_events_by_the_count_that_was_drawn_does_not_balance() -> None:
    """The mean is the same both ways, a count is not."""
    assert imbalance(Grid(proxy_at(THREE, np.array([0.4]), 0), by_count=True)) > 1e-4


def test_a_bound_that_is_not_symmetric_does_not_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: only the distance of the place that is left counts."""
    grid = Grid(proxy_at(THREE, np.array([0.4]), 0))
    symmetric = Proxy.most
    skewed = lambda self, here, there: symmetric(self, here, there) * (1 + 0.5 * float(abs(here[0])))  # noqa: E731
    monkeypatch.setattr(Proxy, "most", skewed)
    assert imbalance(grid) > 1e-4


@pytest.mark.parametrize("order", [0, 1, 2])
def test_decisions_have_these_chances(order: int) -> None:
    """The mean of 4,000 decisions each, within 5.5 standard errors; without numba and with it."""
    made = proxy_at(THREE, np.array([0.4]), order)
    loop = fast.poisson_mh(made)
    assert loop is not None
    for i, j in ((0, 3), (4, 1)):
        expected = Grid(made).alpha(i, j)
        state, rng = poisson_mh.init(GRID[[i]]), KEY.generator(order)
        found = np.exp([poisson_mh.decide(made, state, GRID[[j]], rng, chi=CHI).log_alpha for _ in range(4000)])
        assert abs(found.mean() - expected) <= 5.5 * found.std() / np.sqrt(4000) + 1e-12
        taken = 0
        for level in np.log((np.arange(4000) + 0.5) / 4000):
            path, counts = np.empty((2, 1)), np.zeros(4, dtype=np.int64)
            path[0] = GRID[i]
            loop((GRID[[[j]]] - GRID[i]), np.array([level]), CHI, rng, path, np.zeros(2), counts)
            taken += int(counts[0])
        assert abs(taken / 4000 - expected) < 5.5 * 0.5 / np.sqrt(4000)


def walked(made: Proxy, count: int, seed: int, scale: float = 1.0) -> tuple[np.ndarray, poisson_mh.Info]:
    state = poisson_mh.init(np.zeros(1), np.array([[scale]]))
    _, path, info = poisson_mh.steps(made, state, KEY.generator(seed), count)
    return path, info


@pytest.mark.parametrize(("kind", "order"), ORDERS)
@pytest.mark.parametrize("anchor", [0.5, -1.0])
def test_moments_are_those_of_quadrature(kind: str, order: int, anchor: float) -> None:
    made = density(8, kind=kind, share=0.5)
    path, info = walked(proxy_at(made, np.array([anchor]), order), 100_000, seed=1)
    assert np.abs(z_scores(path, moments(made))).max() < 5.5
    assert 0.1 < info.n_accepted / info.n_proposed < 0.9


def test_an_expansion_that_is_not_that_of_its_events_is_found() -> None:
    """A mutant: the gradient of all events is off."""
    made = density(8)
    right = proxy_at(made, np.array([0.5]), 1)
    off = right.expansion._replace(gradient=right.expansion.gradient + 0.5)
    path, _ = walked(replace(right, expansion=off), 100_000, seed=1)
    assert np.abs(z_scores(path, moments(made))).max() > 10


@pytest.mark.parametrize(("kind", "order"), ORDERS)
def test_the_same_numbers_without_numba(kind: str, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = density(300, 3, kind, share=0.5)
    proxy, root = at_mode(made, order)
    state = poisson_mh.init(proxy.expansion.anchor, root @ root.T)
    found = []
    for _ in range(2):
        here, parts, total = state, [], poisson_mh.Info()
        for block in range(3):
            here, path, info = poisson_mh.steps(proxy, here, KEY.generator(block), 40, chi=CHI)
            parts.append(path)
            total = total.plus(info)
        found.append((np.concatenate(parts), total, here.known, here.log_density if here.known else 0.0))
        monkeypatch.setattr(fast, "poisson_mh", lambda proxy: None)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    assert found[0][1:3] == found[1][1:3]
    if order == 0:  # most decisions are on all events
        assert found[0][1].n_read > 100 * made.n


def test_decisions_on_all_events_are_those_of_mh() -> None:
    """Bit by bit: a walk so wide that every mean is beyond N."""
    made = density(40, 2)
    proxy = proxy_at(made, np.zeros(2), 0)
    state, other = poisson_mh.init(np.zeros(2), 9 * np.eye(2)), mh.init(made, np.zeros(2), 9 * np.eye(2))
    noise, levels = KEY.generator(0).standard_normal((60, 2)), np.log1p(-KEY.generator(1).random(60))
    for z, level in zip(noise, levels, strict=True):
        walk = other.adaptation.proposal
        proposed = walk.moved(other.position, z)
        decision = poisson_mh.decide(proxy, state, proposed, KEY.generator(2))
        state = poisson_mh.moved(state, proposed, decision, bool(level < decision.log_alpha))
        reached = float(made.log_density(proposed[None])[0])
        if level < mh.log_acceptance(other.log_density, reached, 0.0):
            other = other._replace(position=proposed, log_density=reached)
        np.testing.assert_array_equal(state.position, other.position)
        assert state.known
        assert state.log_density == other.log_density


class TooSteep(LogisticRegression):
    """With bounds that do not hold."""

    derivative_bounds = (0.01, 0.01, 1e-4)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_broken_bound_names_the_event(order: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    right = density(50, 2)
    made = Density(TooSteep(right.target.model), right.rows)
    made.rows[17] *= 30
    if not compiled:
        monkeypatch.setattr(fast, "poisson_mh", lambda proxy: None)
    proxy = proxy_at(made, np.zeros(2), order)
    state = poisson_mh.init(np.zeros(2), 0.05 * np.eye(2))
    with pytest.raises(
        BrokenBound, match=r"^derivative_bounds: the remainder of event \d+ of the segment.* correct th"
    ):
        poisson_mh.steps(proxy, state, KEY.generator(0), 400)


def test_events_are_picked_by_their_scales() -> None:
    made = density(5)
    made.rows[[1, 4]] = 0.0
    proxy = proxy_at(made, np.zeros(1), 1)
    picked = proxy.pick(KEY.generator(0).random(20_000))
    shares = proxy.scales / proxy.total
    counts = np.bincount(picked, minlength=5)
    assert (counts[[1, 4]] == 0).all()
    assert np.abs((counts - 20_000 * shares) / np.sqrt(20_000 * shares + 1e-9)).max() < 5.5
    assert proxy.pick(np.array([0.0, np.nextafter(1.0, 0.0)])).tolist() == [0, 3]
    with pytest.raises(ValueError, match=r"no bound for expansions of order 0: use \(1, 2\)"):
        remainders.scales(density(3, kind="probit_regression").target, made.rows, 0)


def _kernel(order: int) -> joint.Kernel:
    def move(made: Density, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        proxy = proxy_at(made, np.zeros(len(theta)), order)
        return poisson_mh.steps(proxy, poisson_mh.init(theta, 0.5 * np.eye(len(theta))), rng, 4)[0].position

    return move


@pytest.mark.parametrize(
    ("kind", "order"), [("logistic_regression", 1), pytest.param("probit_regression", 2, marks=pytest.mark.long)]
)
def test_the_joint_distribution_is_kept(kind: str, order: int) -> None:
    assert np.abs(joint.z_scores(world(kind), _kernel(order), 4000, seed=1)).max() < 5.5


def test_a_prior_that_counts_twice_does_not_keep_it() -> None:
    assert np.abs(joint.z_scores(world("logistic_regression"), _kernel(1), 4000, seed=2, share=2.0)).max() > 10


def test_a_minibatch_does_not_grow_with_the_data() -> None:
    """Of order 2, in the coordinates of the mode."""
    reads = []
    for n in (2_000, 50_000):
        proxy, root = at_mode(density(n, 4, seed=2), 2)
        state = poisson_mh.init(proxy.expansion.anchor, root @ root.T)
        reads.append(poisson_mh.steps(proxy, state, KEY.generator(0), 1000)[2].n_read)
    assert reads[1] < reads[0] < 10_000
    assert partial(poisson_mh.mean_events, chi=0.01)(10.0) == 11.0
