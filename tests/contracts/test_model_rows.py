"""What every conjugate model must satisfy with many sets of statistics, as a row each."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.models.model import DomainError, Model
from tests.contracts.model_harness import assert_same, every_example, is_accepted, some_rows
from tests.models.examples import Example, model_of


@every_example
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_by_group_are_those_of_each_group(example: Example, weighted: bool) -> None:
    model, rng, k = model_of(example), np.random.default_rng(11), 23
    events, groups = example.events(rng, 200), rng.integers(0, k - 3, 200)
    groups[:60] = 4
    groups[groups == 7] = 8
    weights = rng.random(200) ** 3 if weighted else None
    if weights is not None:
        weights[[0, 1, 2]] = 0.0
        for group in np.unique(groups):
            weights[np.flatnonzero(groups == group)[-1]] = 1.0
    rows = model.statistics_by(events, groups, k, weights)
    assert rows.shape == (k, model.size)
    for group, row in enumerate(rows):
        of = groups == group
        if of.any():
            alone = model.statistics(events[of], None if weights is None else weights[of])
            np.testing.assert_allclose(row, alone, rtol=1e-13, atol=1e-13)
            assert_same(model.posterior(row), model.posterior(alone))
        else:
            np.testing.assert_array_equal(row, model.empty())
    assert not (groups == 7).any()
    nothing = model.statistics_by(events[:0], groups[:0], 3, None if weights is None else weights[:0])
    np.testing.assert_array_equal(nothing, np.stack([model.empty()] * 3))


@every_example
def test_rows_merge_and_scale_as_each_row_does(example: Example) -> None:
    model = model_of(example)
    a, b = some_rows(model, example, 12), some_rows(model, example, 13)
    a, b = np.vstack([a, a[:4], a[20:]]), np.vstack([b[20:], b[:4], b])
    before = a.copy(), b.copy()
    np.testing.assert_array_equal(model.merge(a, b), np.stack(list(map(model.merge, a, b))))
    np.testing.assert_array_equal(model.merge(a, b[5]), np.stack([model.merge(row, b[5]) for row in a]))
    weights = np.append(np.random.default_rng(14).random(len(a) - 2), [0.0, 1.0])
    scaled = np.stack([model.scale(row, float(w)) for row, w in zip(a, weights, strict=True)])
    np.testing.assert_array_equal(model.scale(a, weights), scaled)
    np.testing.assert_array_equal(model.scale(a, 0.25), np.stack([model.scale(row, 0.25) for row in a]))
    np.testing.assert_array_equal(model.merge(a[None], b[None]), model.merge(a, b)[None])
    np.testing.assert_array_equal((a, b), before)


def border(model: Model, good: np.ndarray, i: int, bad: float) -> list[np.ndarray]:
    """Two rows whose statistic i are neighbours in float64: the first has a posterior, the second, on the way to `bad`,
    has none. Found by halving the interval in the order of the bits."""

    def row(place: int) -> np.ndarray:
        changed = good.copy()
        changed[i] = math.copysign(np.int64(abs(place)).view(np.float64), place)
        return changed

    bits = int(np.abs(good[i]).view(np.int64))
    inside, outside = (
        (-bits if good[i] < 0 else bits),
        int(np.float64(abs(bad)).view(np.int64)) * (1 if bad > 0 else -1),
    )
    assert is_accepted(model, row(inside))
    assert not is_accepted(model, row(outside))
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if is_accepted(model, row(middle)) else (inside, middle)
    return [row(inside), row(outside)]


@every_example
def test_proper_rows_are_those_with_a_posterior(example: Example) -> None:
    """Each statistic in turn is moved out of the domain: the last number inside and the first outside differ."""
    model = model_of(example)
    rows = list(some_rows(model, example, 15, 12))
    for i in range(model.size):
        rows.extend(rows[n].copy() for n in (0, 2, 11) for _ in range(6))
        for row, bad in zip(rows[-18:], (np.nan, np.inf, -np.inf, -1.0, 1e-9, 1e250) * 3, strict=True):
            row[i] = bad
        for bad in (-1e300, 1e300):
            rows += border(model, rows[11], i, bad)
    accepted = [is_accepted(model, row) for row in rows]
    np.testing.assert_array_equal(model.proper(np.stack(rows)), accepted)
    assert {True, False} <= set(accepted)
    assert model.proper(np.zeros((0, model.size))).shape == (0,)
    for shape in ((3, model.size - 1), (3, model.size + 1), (model.size,)):
        with pytest.raises(DomainError):
            model.proper(np.zeros(shape))


@every_example
def test_garbage_is_proper_where_it_has_a_posterior(example: Example) -> None:
    model = model_of(example)
    numbers = st.one_of(st.floats(), st.floats(-2, 2), st.sampled_from([0.0, 1.0]))

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.lists(numbers, min_size=model.size, max_size=model.size), min_size=1, max_size=8))
    def check(rows: list[list[float]]) -> None:
        statistics = np.array(rows)
        np.testing.assert_array_equal(model.proper(statistics), [is_accepted(model, row) for row in statistics])

    check()


@every_example
def test_evidences_are_those_of_each_row(example: Example) -> None:
    model = model_of(example)
    rows = some_rows(model, example, 16)
    rows = np.vstack([rows, model.scale(rows, 0.3)])
    each = [model.posterior(row).log_evidence() for row in rows]
    np.testing.assert_allclose(model.log_evidences(rows), each, rtol=1e-10, atol=1e-12)
    assert model.log_evidences(rows[:0]).shape == (0,)
    rows[7, 0] = -1.0
    with pytest.raises(DomainError, match="row 7"):
        model.log_evidences(rows)
    with pytest.raises(DomainError, match="row"):
        model.pooled(rows)
