"""The arena against a plain dictionary, through random additions and drops."""

from __future__ import annotations

import random

import numpy as np
import pytest

from streaminfer.models.conjugate.poisson import Poisson
from streaminfer.variational import keyed
from streaminfer.variational.arena import NONE, Arena
from tests.models.examples import build


def fill(arena: Arena, label: bytes, clock: int, value: float, stamp: float) -> None:
    (row,) = arena.find([label], clock).tolist()
    if row == NONE:
        row = arena.add(label, clock)
    arena.statistics[row] = value
    arena.counts[row], arena.dirty[row] = 1.0, True
    first = arena.rows[label]
    arena.stamps[first] = max(arena.stamps[first], stamp)


@pytest.mark.parametrize("seed", range(10))
def test_it_holds_what_a_dictionary_would(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.variational.arena.FIRST", 4)
    rng, arena = random.Random(seed), Arena(2)
    expected: dict[bytes, dict[int, float]] = {}
    stamps: dict[bytes, float] = {}
    for turn in range(400):
        label, clock = b"%d" % rng.randrange(12), rng.randrange(3)
        if rng.random() < 0.2 and label in expected:
            arena.drop(label)
            del expected[label], stamps[label]
        else:
            stamp = float(rng.randrange(1000))
            fill(arena, label, clock, float(turn), stamp)
            expected.setdefault(label, {})[clock] = float(turn)
            stamps[label] = max(stamps.get(label, -1.0), stamp)
        assert len(arena) == len(expected)
    held = {(each.label, each.clock): (each.statistics[0], each.stamp) for each in arena.changed()}
    assert held == {(k, c): (v, stamps[k]) for k, clocks in expected.items() for c, v in clocks.items()}
    limit = sorted(stamps.values())[len(stamps) // 2]
    assert set(arena.idle(limit, 1000)) == {label for label, stamp in stamps.items() if stamp < limit}
    assert len(arena.idle(limit, 1)) == min(1, sum(stamp < limit for stamp in stamps.values()))
    sums = keyed.some(build("poisson", field="k"), _three(arena), 1000)
    assert sorted(sums[:, 0]) == sorted(sum(clocks.values()) for clocks in expected.values())


def _three(arena: Arena) -> Arena:
    """With as many statistics as the model has."""
    arena.statistics = np.column_stack([arena.statistics, arena.statistics[:, :1]])
    return arena


def test_rows_of_dropped_keys_are_used_again() -> None:
    arena = Arena(1)
    for i in range(5000):
        fill(arena, b"%d" % i, 0, 1.0, 1.0)
        if i >= 10:
            arena.drop(b"%d" % (i - 10))
    assert (len(arena), len(arena.labels)) == (10, 11)
    assert len(arena.gone) == 4990


def test_weights_of_each_key_are_those_of_its_events_alone() -> None:
    rng = np.random.default_rng(2)
    model = build("poisson", field="k")
    assert isinstance(model, Poisson)
    groups, events, times = rng.integers(0, 5, 200), rng.poisson(3.0, (200, 1)).astype(float), rng.uniform(0, 50, 200)
    labels = [b"%d" % i for i in range(5)]
    for rule in (keyed.ByEvents(7.0), keyed.ByTime(7.0)):
        by_time = isinstance(rule, keyed.ByTime)
        learned = keyed.learn(model, events, labels, groups, times, times if by_time else None, rule)
        for i in range(5):
            mine = groups == i
            weights = rule.weights(int(mine.sum()), times[mine])
            np.testing.assert_allclose(learned.statistics[i], model.statistics(events[mine], weights), rtol=1e-12)
            if by_time:
                assert learned.keys.newest[i] == times[mine].max()
                np.testing.assert_allclose(learned.keys.n_effective[i], weights.sum(), rtol=1e-12)


def test_the_keys_of_a_pooled_prior_do_not_depend_on_their_order() -> None:
    model, rng = build("poisson", field="k"), random.Random(2)
    labels = [f"key-{i}".encode() for i in range(500)]
    found = []
    for _ in range(3):
        rng.shuffle(labels)
        arena = Arena(3)
        for label in labels:
            row = arena.add(label, 0)
            arena.statistics[row] = float(label[4:])
        found.append(keyed.some(model, arena, 40)[:, 0])
    assert len(set(found[0])) == 40
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert 150 < found[0].mean() < 350, "neither the first nor the last ones"
