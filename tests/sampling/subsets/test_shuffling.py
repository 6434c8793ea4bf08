"""Subsets without replacement: all alike, at a cost that does not depend on how many events there are."""

from __future__ import annotations

import time
from itertools import permutations

import numpy as np
import pytest

from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Stopping
from streaminfer.sampling.subsets import deciding, fast, shuffling
from streaminfer.sampling.subsets.shuffling import Shuffled

KEY = Key(4, "subset")


@pytest.fixture(params=["numba", "plain"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain":
        monkeypatch.setattr(fast, "swaps", lambda: shuffling)


@pytest.mark.usefixtures("both")
def test_all_orders_are_alike() -> None:
    """Ordered triples of 5 in batches of 1 and 2: counts of all 60, within 5.5 deviations."""
    order, rng, n = Shuffled(5), KEY.generator(0), 12_000
    counts = dict.fromkeys(permutations(range(5), 3), 0)
    for _ in range(n):
        counts[tuple(np.concatenate([order.take(1, rng), order.take(2, rng)]).tolist())] += 1
        order.undo()
    z = (np.array(list(counts.values())) - n / 60) / np.sqrt(n / 60 * (59 / 60))
    assert np.abs(z).max() < 5.5


def with_replacement(order: Shuffled, count: int, rng: np.random.Generator) -> np.ndarray:
    """A mutant."""
    return rng.integers(0, 5, count)


def test_with_replacement_is_found() -> None:
    order, rng = Shuffled(5), KEY.generator(0)
    drawn = [tuple(with_replacement(order, 3, rng).tolist()) for _ in range(1000)]
    assert any(len(set(each)) < 3 for each in drawn)


@pytest.mark.usefixtures("both")
def test_a_subset_depends_on_its_numbers_alone() -> None:
    order = Shuffled(1000)
    first = order.take(400, KEY.generator(1))
    assert len(set(first.tolist())) == 400
    rest = order.take(600, KEY.generator(2))
    assert set(first.tolist()) | set(rest.tolist()) == set(range(1000))
    order.undo()
    np.testing.assert_array_equal(order.take(400, KEY.generator(1)), first)
    order.undo()
    np.testing.assert_array_equal(order._order, np.arange(1000))


def test_the_same_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Shuffled(300).take(200, KEY.generator(3))
    monkeypatch.setattr(fast, "swaps", lambda: shuffling)
    np.testing.assert_array_equal(Shuffled(300).take(200, KEY.generator(3)), first)


def test_time_is_flat_in_n() -> None:
    """A thousand times the events, and not twenty times the time for 1,000 of them; a permutation takes a thousand."""
    best = []
    for n in (10_000, 10_000_000):
        order, rng, times = Shuffled(n), KEY.generator(4), []
        for _ in range(30):
            began = time.perf_counter()
            order.take(1000, rng)
            order.undo()
            times.append(time.perf_counter() - began)
        best.append(min(times))
    assert best[1] < 20 * best[0]


def test_sizes() -> None:
    assert list(deciding.sizes(Stopping("t", 0.01, 2.0), 10, 100)) == [10, 20, 40, 80]
    assert list(deciding.sizes(Stopping("t", 0.01, 1.0), 30, 100)) == [30, 60, 90]
    assert list(deciding.sizes(Stopping("t", 0.01, 1.01), 1, 5)) == [1, 2, 3, 4]
    assert list(deciding.sizes(Stopping("t", 0.01, 2.0), 100, 100)) == []


def test_moments_of_batches_are_those_of_all() -> None:
    values = 1e6 + KEY.generator(5).standard_normal(1000)
    found = (0, 0.0, 0.0)
    for part in np.array_split(values, [3, 10, 400]):
        found = deciding.joined(*found, part)
    assert found[0] == 1000
    assert found[1] == pytest.approx(values.mean(), rel=1e-14)
    assert found[2] / 999 == pytest.approx(values.var(ddof=1), rel=1e-9)


@pytest.mark.parametrize("rule", ["t", "hoeffding", "bernstein", "bernstein_serfling"])
@pytest.mark.parametrize("growth", [1.0, 2.0])
def test_decisions_are_as_often_right_as_they_say(rule: str, growth: float) -> None:
    """1,000 decisions near their threshold, each compared with that of all values; the order is as before."""
    test, rng = Stopping(rule, 0.05, growth), KEY.generator(6)
    wrong = enough = 0
    for k in range(1000):
        values = np.clip(rng.standard_normal(400), -3, 3)
        gap = (0.05, 0.3, 1.5)[k % 3]
        order = Shuffled(400)
        found = deciding.decide(lambda events, v=values: v[events], values.mean() - gap, test, 20, order, 400, rng, 3.0)  # type: ignore[misc]
        assert order.taken == 0
        enough += found.enough
        wrong += found.enough and found.mean < values.mean() - gap
    assert enough > 200
    room = 0.05 if rule != "t" else 0.05 * 10  # t promises 5% at each of its looks
    assert wrong < 1000 * room


def test_constant_values_are_left_to_all() -> None:
    order = Shuffled(100)
    test = Stopping("t", 0.1)
    found = deciding.decide(lambda events: np.zeros(len(events)), 0.1, test, 10, order, 100, KEY.generator(7))
    assert (found.enough, found.n_read) == (False, 80)
    found = deciding.decide(lambda events: np.full(len(events), np.inf), 0.1, test, 10, order, 100, KEY.generator(7))
    assert not found.enough
    assert order.taken == 0
