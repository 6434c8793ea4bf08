"""Ranks are uniform given all that was seen of earlier ones: by enumeration of every order of a few values."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from streaminfer.variational.drift import ranks
from streaminfer.variational.drift.ranks import EDGES, FIRST_STRIDE, LAST_STRIDE, SKIPPED, Pool, Share

History = tuple[Share | None, ...]


def seen(values: tuple[float, ...]) -> History:
    pool, shares = Pool(since=0), []
    for value in values:
        pool, share = ranks.step(pool, value)
        shares.append(share)
    return tuple(shares)


def test_a_share_is_the_probability_of_itself_given_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two edges, then every second value set aside, then every fourth: two references within seven values."""
    monkeypatch.setattr(ranks, "EDGES", 2)
    monkeypatch.setattr(ranks, "FIRST_STRIDE", 2)
    after: dict[History, Counter[Share | None]] = defaultdict(Counter)
    for order in permutations(range(7)):
        history = seen(order)
        for i, share in enumerate(history):
            after[history[:i]][share] += 1
    compared = 0
    for counts in after.values():
        total = sum(counts.values())
        for share, count in counts.items():
            width = Fraction(1) if share is None else Fraction(share.high - share.low).limit_denominator(100)
            assert Fraction(count, total) == width
        compared += None not in counts
    assert compared == 1 + 3 + 3 * 3, "each of the three values that are compared has three bins"


def test_references_are_what_was_set_aside_and_strides_double() -> None:
    pool, strides = Pool(since=0), [1]
    values = np.random.default_rng(0).normal(size=5000).tolist()
    aside: list[float] = []
    for value in values:
        before = pool
        pool, share = ranks.step(pool, value)
        aside += [value] if share is None else []
        if pool.stride != before.stride:
            assert pool.edges == tuple(sorted(aside[-EDGES:]))
            assert pool.masses == (1,) * (EDGES + 1)
            strides.append(pool.stride)
        elif share is not None:
            assert share.high - share.low == pytest.approx(before.masses[_bin(before, value)] / sum(before.masses))
    assert strides == [1, *(FIRST_STRIDE << k for k in range(len(strides) - 1))]
    assert len(aside) == len(values) - _compared(len(values), strides)


def _bin(pool: Pool, value: float) -> int:
    return sum(edge <= value for edge in pool.edges)


def _compared(n: int, strides: list[int]) -> int:
    full = sum(EDGES * stride for stride in strides[:-1])
    compared = sum(EDGES * (stride - 1) for stride in strides[:-1])
    return compared + (n - full) - (n - full) // strides[-1]


def test_the_last_stride_stays() -> None:
    pool = Pool((0.0,) * EDGES, (1,) * (EDGES + 1), (0.0,) * (EDGES - 1), LAST_STRIDE, LAST_STRIDE - 1)
    after, share = ranks.step(pool, 5.0)
    assert (after.stride, after.edges[-1], after.since, after.aside, share) == (LAST_STRIDE, 5.0, 0, (), None)


def test_low_values_have_low_shares() -> None:
    pool = Pool()
    for _ in range(SKIPPED):
        pool, share = ranks.step(pool, -1e9)
        assert (share, pool.aside) == (None, ()), "the first are not looked at"
    for value in range(EDGES):
        pool, share = ranks.step(pool, value)
        assert share is None
    assert ranks.step(pool, -1.0)[1] == (0.0, 1 / 32)
    assert ranks.step(pool, 99.0)[1] == (31 / 32, 1.0)
    assert ranks.step(pool, 15.0)[1] == (16 / 32, 17 / 32)
    pool, _ = ranks.step(pool, -1.0)
    pool, _ = ranks.step(pool, 0.0)  # set aside, so it makes no gap
    assert ranks.step(pool, -2.0)[1] == (0.0, 2 / 33)
