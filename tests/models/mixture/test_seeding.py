"""The start of a mixture: groups of events from a seed and the events alone."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.mixture import seeding

CORNERS = np.array([[0.0, 0.0], [0.0, 1e3], [50.0, 0.0], [50.0, 1e3]])


def clusters(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Four of them, whose fields have different units."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, n)
    return CORNERS[truth] + rng.normal(size=(n, 2)) * [1.0, 20.0], truth


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_tight(seed: int) -> None:
    """With as many groups as clusters a bad draw may split one; with twice as many no group mixes two."""
    events, truth = clusters()
    groups = seeding.labels(events, None, 8, seed)
    assert set(groups) == set(range(8))
    assert all(len(set(truth[groups == k])) == 1 for k in range(8))


def test_order_place_and_units_do_not_matter() -> None:
    events, _ = clusters()
    groups = seeding.labels(events, None, 5, 0)
    order = np.random.default_rng(2).permutation(len(events))
    np.testing.assert_array_equal(seeding.labels(events[order], None, 5, 0), groups[order])
    for moved in (events * 2.0**30, events * [2.0**-40, 8.0], events * 2.0**-1000):
        np.testing.assert_array_equal(seeding.labels(moved, None, 5, 0), groups)
    np.testing.assert_array_equal(
        seeding.labels(np.round(events) + 1e7, None, 5, 0), seeding.labels(np.round(events), None, 5, 0)
    )


def test_a_weight_of_two_is_an_event_twice() -> None:
    events, _ = clusters(40)
    twice = seeding.labels(np.vstack([events, events[:15]]), None, 4, 3)
    weights = np.where(np.arange(40) < 15, 1.0, 0.5)
    np.testing.assert_array_equal(seeding.labels(events, weights, 4, 3), twice[:40])


def test_few_distinct_events_fill_the_first_groups() -> None:
    events = np.repeat([[1.0], [2.0], [5.0]], 4, axis=0)
    assert sorted(set(seeding.labels(events, None, 7, 0))) == [0, 1, 2]
    assert set(seeding.labels(np.full((6, 1), 3.0), None, 4, 0)) == {0}
    assert seeding.labels(np.array([[1e100, -1e100]]), None, 4, 0).tolist() == [0]


def test_one_huge_event_does_not_hide_the_others() -> None:
    events, truth = clusters()
    groups = seeding.labels(np.vstack([events, [[1e100, -1e100]]]), None, 9, 0)
    assert (groups == groups[-1]).sum() == 1
    assert all(len(set(truth[groups[:-1] == k])) <= 1 for k in range(9))


def test_a_field_with_few_different_values_is_measured_by_its_range() -> None:
    """A middle half without width is no unit: one field would outweigh all others."""
    events, truth = clusters()
    rare = (np.arange(200) % 10 == 0)[:, None] * 1e-9
    groups = seeding.labels(np.hstack([events, rare]), None, 16, 0)
    assert set(groups) == set(range(16))
    assert all(len(set(truth[groups == k])) == 1 for k in range(16))


def test_clusters_apart_are_told_apart_whatever_is_drawn() -> None:
    """One draw of k-means++ in two puts two of these three centres into one cluster."""
    centres = np.array([[0.0, 0.0], [6.0, 1.0], [-3.0, 5.0]])
    for i in range(40):
        rng = np.random.default_rng(i)
        truth = rng.integers(0, 3, 64)
        found = seeding.labels(centres[truth] + rng.normal(size=(64, 2)), None, 3, seed=i)
        together = np.array([[np.count_nonzero((truth == a) & (found == b)) for b in range(3)] for a in range(3)])
        assert (together.max(axis=1) >= 0.75 * together.sum(axis=1)).all(), "most of each cluster is in one group"
        assert len(set(together.argmax(axis=1).tolist())) == 3, "and each in another"
