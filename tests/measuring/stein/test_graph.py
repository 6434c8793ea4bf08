"""The graph Stein discrepancy against closed forms, and the spanner against all shortest paths."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.stein import graph, spanner
from streaminfer.measuring.stein.graph import Support

UNIT = Support(np.zeros(1), np.ones(1))


@pytest.mark.parametrize("x", [0.0, -0.3, 2.0])
def test_an_atom_against_a_normal(x: float) -> None:
    at = np.array([[x]])
    assert graph.measure(at, -at).value == pytest.approx(1 + abs(x), rel=1e-7)


@pytest.mark.parametrize("a", [0.1, 0.5, 1.0])
def test_two_atoms_against_a_normal(a: float) -> None:
    at = np.array([[a], [-a]])
    assert graph.measure(at, -at).value == pytest.approx(1 - a**2 + a**3, rel=1e-7)


def test_draws_that_are_the_same_count_together() -> None:
    """The mutant takes them for different points, which may have different values: |x| + 1 would hold for each."""
    at, weights = np.array([[0.5], [-0.5], [0.5], [0.5]]), np.array([0.5, 3.0, 1.5, 1.0])
    found = graph.measure(at, -at, weights=weights)
    assert found.n == 2
    assert found.value == pytest.approx(1 - 0.5**2 + 0.5**3, rel=1e-7)


@pytest.mark.parametrize("x", [0.0, 0.2, 0.5, 0.9])
def test_an_atom_against_a_uniform(x: float) -> None:
    """Without the edges of the support it would be 1, as for every density that is flat at the atom."""
    at = np.array([[x]])
    assert graph.measure(at, 0 * at, support=UNIT).value == pytest.approx((x**2 + (1 - x) ** 2) / 2, abs=1e-7)
    assert graph.measure(at, 0 * at).value == pytest.approx(1.0)
    both = np.array([[x, 0.3]])
    found = graph.measure(both, 0 * both, support=Support(np.zeros(2), np.ones(2)))
    assert found.value == pytest.approx((x**2 + (1 - x) ** 2) / 2 + (0.3**2 + 0.7**2) / 2, abs=1e-7)


@pytest.mark.parametrize("d", [1, 2])
def test_a_spanner_instead_of_all_pairs(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one dimension neighbours are enough. In two the value may be larger, by a factor that is bounded."""
    x = np.random.default_rng(d).standard_normal((40, d))
    found = graph.measure(x, -x)
    monkeypatch.setattr(spanner, "edges", lambda points: np.array(list(combinations(range(len(points)), 2))))
    whole = graph.measure(x, -x)
    if d == 1:
        assert found.value == pytest.approx(whole.value, rel=1e-5)
    else:
        assert whole.value - 1e-6 < found.value < 2 * whole.value


def test_every_path_is_at_most_twice_as_long() -> None:
    x = np.random.default_rng(3).standard_normal((120, 2))
    edges = spanner.edges(x)
    lengths = spanner.lengths_of(x, edges)
    paths = shortest_path(coo_array((lengths, edges.T), shape=(120, 120)).tocsr(), directed=False)
    distances = np.abs(x[:, None] - x).sum(axis=2)
    assert (paths <= 2 * distances + 1e-12).all()
    assert len(edges) < 3 * len(x)  # all pairs are 60 n


@pytest.mark.parametrize(("n", "d"), [(300, 1), (100, 2)])
def test_shifted_draws_are_clearly_worse_than_exact_ones(n: int, d: int) -> None:
    x = np.random.default_rng(4).standard_normal((n, d))
    exact, off = graph.measure(x, -x), graph.measure(x + 1, -x - 1)
    assert 1.5 * exact.value < off.value < off.bound


def test_the_bound_says_nothing_of_the_draws() -> None:
    x = np.random.default_rng(5).standard_normal((50, 3))
    found = graph.measure(x, -x)
    assert found.bound == pytest.approx(np.abs(x).mean(axis=0).sum() + 3)
    assert 0.5 * found.bound < found.value < found.bound  # three dimensions are too many to tell


def test_what_cannot_be_told_says_why() -> None:
    x = np.random.default_rng(6).standard_normal((501, 2))
    with pytest.raises(Unknowable, match="501 different draws, and at most 500"):
        graph.measure(x, -x)
    with pytest.raises(Unknowable, match="outside of the support"):
        graph.measure(np.array([[1.5]]), np.zeros((1, 1)), support=UNIT)
