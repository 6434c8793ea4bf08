"""The tree of batches: its root is the merge of its leaves, however often they were replaced."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from streaminfer.models.conjugate.gaussian import Gaussian
from streaminfer.models.model import Vector
from streaminfer.variational import tree
from streaminfer.variational.increment import Pane
from streaminfer.variational.tree import Tree
from tests.models.examples import build

MODEL: Gaussian = build("gaussian", fields=["x"])
CENTRE = 1e7
"""A mean of this many standard deviations shows a sum that loses digits."""


def batch(rng: np.random.Generator, n: int = 5) -> Pane:
    return Pane(n, MODEL.statistics(rng.normal(CENTRE, 1.0, size=(n, 1))))


def recomputed(batches: dict[int, Pane]) -> Vector:
    return reduce(MODEL.merge, [batches[begin].statistics for begin in sorted(batches)], MODEL.empty())


def grown(rng: np.random.Generator, n: int) -> tuple[Tree, dict[int, Pane]]:
    found, batches = Tree(), {}
    for begin in range(0, 10 * n, 10):
        batches[begin] = batch(rng)
        found = tree.placed(MODEL, found, begin, batches[begin])
    return found, batches


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 100])
def test_grown_and_built_trees_are_the_same(n: int) -> None:
    found, batches = grown(np.random.default_rng(n), n)
    assert found.begins == tuple(batches)
    assert [found.leaf(i) for i in range(n)] == list(batches.values())
    assert [found.find(begin) for begin in found.begins] == list(range(n))
    assert (found.find(-1), found.find(5), found.find(10 * n)) == (None, None, None)
    whole = tree.of(MODEL, batches)
    assert found.root is not None
    assert whole.root is not None
    assert np.array_equal(found.root.pane.statistics, whole.root.pane.statistics)
    assert found.n_events == whole.n_events == 5 * n


def test_after_many_visits_the_root_is_the_sum_recomputed() -> None:
    rng = np.random.default_rng(0)
    found, batches = grown(rng, 13)
    for _ in range(2000):
        begin = int(rng.choice(found.begins))
        batches[begin] = batch(rng, int(rng.integers(2, 9)))
        found = tree.placed(MODEL, found, begin, batches[begin])
    assert found.root is not None
    np.testing.assert_allclose(found.root.pane.statistics, recomputed(batches), rtol=1e-9, atol=1e-12)
    whole = tree.of(MODEL, batches).root
    assert whole is not None
    assert np.array_equal(found.root.pane.statistics, whole.pane.statistics)
    assert found.n_events == sum(each.n_events for each in batches.values())


@pytest.mark.parametrize("n", [0, 1, 3, 8, 21])
def test_changes_are_what_is_new_or_was_replaced(n: int) -> None:
    rng = np.random.default_rng(n)
    old, _ = grown(rng, n)
    new, expected = old, {}
    for begin in [*old.begins[::3], *range(10 * n, 10 * n + 70, 10)]:
        expected[begin] = batch(rng)
        new = tree.placed(MODEL, new, begin, expected[begin])
    found = tree.changes(old, new)
    assert found.keys() == expected.keys()
    assert all(found[begin] is expected[begin] for begin in expected)
    assert tree.changes(new, new) == {}
    same = tree.placed(MODEL, new, new.begins[0], new.leaf(0))
    assert tree.changes(new, same) == {}


def test_what_was_there_stays_as_it_was() -> None:
    rng = np.random.default_rng(4)
    old, batches = grown(rng, 6)
    tree.placed(MODEL, tree.placed(MODEL, old, 20, batch(rng)), 60, batch(rng))
    assert [old.leaf(i) for i in range(6)] == list(batches.values())


def test_a_visit_merges_one_path(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    found, _ = grown(rng, 1024)
    merges = []
    real = Gaussian.merge
    monkeypatch.setattr(Gaussian, "merge", lambda self, a, b: merges.append(1) or real(self, a, b))
    tree.placed(MODEL, found, 5120, batch(rng))
    assert len(merges) == 10


def test_batches_come_in_their_order() -> None:
    rng = np.random.default_rng(6)
    found, _ = grown(rng, 3)
    with pytest.raises(ValueError, match="a batch from 15 comes before the last, which begins at 20"):
        tree.placed(MODEL, found, 15, batch(rng))
    with pytest.raises(IndexError):
        found.leaf(3)
