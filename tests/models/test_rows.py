"""Centred moments of many rows: the digits of groups far from zero, and what is not a scatter, row by row."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from streaminfer.models.conjugate import centred, roots
from streaminfer.models.model import DomainError


@pytest.mark.parametrize("centre", [1e7, -1e7, 0.0])
def test_groups_keep_the_digits_of_their_scatter(centre: float) -> None:
    """Values with mean/sd 1e7 in groups of 1 to 40: scatter to 1e-13, mean and rest to 1e-13 of the sd."""
    rng = np.random.default_rng(1)
    groups = rng.permutation(np.repeat(np.arange(40), np.arange(1, 41)))
    events = rng.normal(size=(len(groups), 1)) + centre
    rows = centred.statistics_by(events, groups, 40)
    for group, (n, mean, rest, scatter) in enumerate(rows.tolist()):
        with mp.workdps(50):
            values = [mp.mpf(v) for v in events[groups == group, 0].tolist()]
            exact = mp.fsum(values) / len(values)
            squares = mp.fsum((v - exact) ** 2 for v in values)
            assert n == group + 1
            assert abs(exact - mp.mpf(mean) - mp.mpf(rest)) < 1e-13
            assert scatter == pytest.approx(float(squares), rel=1e-13, abs=1e-300)


def test_one_group_is_the_whole() -> None:
    events = np.random.default_rng(2).normal(size=(300, 17)) + 1e7
    (row,) = centred.statistics_by(events, np.zeros(300, dtype=np.int32), 1)
    np.testing.assert_array_equal(row, centred.statistics(events))


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = centred.statistics_by(rng.normal(size=(200, 3)), rng.integers(0, 50, 200), 50)
    rows[::7, 0] = -1.0
    rows[3::7, -1] = -1.0
    whole = centred.proper(rows, 3)
    monkeypatch.setattr(centred, "_BLOCK", 40)
    assert list(centred.blocks(9, 3)) == [slice(0, 4), slice(4, 8), slice(8, 12)]
    np.testing.assert_array_equal(centred.proper(rows, 3), whole)
    assert 0 < whole.sum() < 50


def test_roots_of_many_are_the_roots_of_each() -> None:
    """Scatters of every rank, indefinite ones through the border of rounding, and asymmetric ones."""
    rng = np.random.default_rng(4)
    scatters = []
    for n in range(6):
        events = rng.normal(size=(n, 4)) * [1e-90, 1.0, 1e60, 1e3]
        scatters.append(events.T @ events)
    vectors = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    lowest = [*-np.geomspace(1e-16, 1e-2, 150), *np.linspace(-3e-6, 3e-6, 200)]
    scatters += [vectors @ np.diag([1.0, 0.5, 1e-7, value]) @ vectors.T for value in lowest]
    for change in np.linspace(-3e-6, 3e-6, 50):
        scatters.append(np.eye(4) + np.eye(4, k=1) * change)
        scatters.append(np.eye(4) + (np.eye(4, k=1) + np.eye(4, k=-1)) * (0.5 + change))
    found = roots.roots(np.stack(scatters))
    for scatter, root, fault in zip(scatters, *found, strict=True):
        if fault:
            with pytest.raises(DomainError, match=roots.FAULTS[fault]):
                roots.root(scatter)
        else:
            np.testing.assert_array_equal(root, roots.root(scatter))
            sizes = np.sqrt(scatter.diagonal())
            assert (np.abs(root.T @ root - scatter) <= 1e-6 * np.outer(sizes, sizes)).all()
    assert 100 < (found.faults == 0).sum() < len(scatters) - 100
    assert set(found.faults) == {0, 2, 3}


def test_rows_without_events_change_no_other_row() -> None:
    """Not even one whose mean and rest overlap, as no events give them."""
    odd = np.array([[3.0, 1.0, 1.0, 2.0], [0.0, 7.0, 1.0, 0.0], [5.0, 1e7, 0.3, 1.0]])
    nothing = np.array([[0.0, 4.0, 0.0, 0.0]] * 3)
    np.testing.assert_array_equal(centred.merge(odd, nothing, 1), odd)
    np.testing.assert_array_equal(centred.merge(nothing, odd, 1), [odd[0], nothing[1], odd[2]])
