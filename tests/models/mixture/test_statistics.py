"""Expected statistics of a mixture: weights, rows, empty components and events that are hard to absorb."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.models.model import DomainError
from streaminfer.variational import base
from streaminfer.variational.methods import svb
from tests.models.examples import build, model_of
from tests.models.mixture.examples import MIXTURE_EXAMPLES

every_example = pytest.mark.parametrize("example", MIXTURE_EXAMPLES, ids=[each.name for each in MIXTURE_EXAMPLES])


def learned(example: Any, n: int = 60, seed: int = 1) -> tuple[Any, Any, np.ndarray]:
    """A model, a posterior and the events that it is of."""
    model = model_of(example)
    events = example.events(np.random.default_rng(seed), n)
    return model, model.posterior(model.expected(model.posterior(model.empty()), events)), events


def assert_same(model: Any, a: np.ndarray, b: np.ndarray) -> None:
    for ours, other in zip(model.posterior(a).components, model.posterior(b).components, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())


@every_example
def test_given_a_posterior_events_are_independent(example: Any) -> None:
    model, q, events = learned(example)
    weights = np.random.default_rng(2).random(60) ** 3
    weights[[3, 7]], weights[11] = 0.0, 1.0
    single = [model.scale(model.expected(q, event[None]), w) for event, w in zip(events, weights, strict=True)]
    weighted = model.expected(q, events, weights)
    assert_same(model, weighted, reduce(model.merge, single, model.empty()))
    assert_same(model, model.expected(q, events, np.ones(60)), model.expected(q, events))
    halves = model.merge(model.expected(q, events[:20]), model.expected(q, events[20:]))
    assert_same(model, model.expected(q, events), halves)
    counts = model.posterior(model.expected(q, events)).absorbed.n
    assert counts.sum() == pytest.approx(60, rel=1e-12)


@every_example
def test_the_start_is_of_the_events_alone(example: Any) -> None:
    """Neither their order nor events without weight matter, and an event counts by its weight."""
    model, _, events = learned(example)
    prior = model.posterior(model.empty())
    start = model.expected(prior, events)
    assert_same(model, model.expected(prior, np.random.default_rng(3).permutation(events)), start)
    weights = np.repeat([1.0, 0.0], 60)
    padded = np.vstack([events, example.events(np.random.default_rng(4), 60) * 5])
    assert_same(model, model.expected(prior, padded, weights), start)
    assert model.posterior(start).absorbed.n.sum() == 60
    assert (model.posterior(start).absorbed.n > 0).all()
    emptied = model.posterior(model.scale(start, 0.0))
    assert_same(model, model.expected(emptied, events), start)


def test_seeds_choose_the_start() -> None:
    events = MIXTURE_EXAMPLES[0].events(np.random.default_rng(5), 60)
    models = [build("gaussian_mixture", fields=["u", "v"], components=9, seed=seed) for seed in (0, 0, 1, 2)]
    one, same, *others = (model.expected(model.posterior(model.empty()), events) for model in models)
    np.testing.assert_array_equal(one, same)
    assert all(not np.array_equal(one, other) for other in others)


@every_example
def test_rows_merge_and_scale_as_each_row_does(example: Any) -> None:
    model, q, events = learned(example)
    rows = np.stack([model.empty(), *(model.expected(q, events[i : i + 5]) for i in range(0, 60, 10))])
    other = rows[::-1]
    before = rows.copy()
    np.testing.assert_array_equal(model.merge(rows, other), np.stack(list(map(model.merge, rows, other))))
    np.testing.assert_array_equal(model.merge(rows, rows[3]), np.stack([model.merge(row, rows[3]) for row in rows]))
    weights = np.linspace(0, 1, len(rows))
    scaled = np.stack([model.scale(row, float(w)) for row, w in zip(rows, weights, strict=True)])
    np.testing.assert_array_equal(model.scale(rows, weights), scaled)
    np.testing.assert_array_equal(model.scale(rows[None], weights[None]), scaled[None])
    np.testing.assert_array_equal(model.merge(rows[1], model.empty()), rows[1])
    np.testing.assert_array_equal(rows, before)
    assert model.proper(rows).all()
    assert_same(model, model.merge(rows[1], rows[2]), model.merge(rows[2], rows[1]))


def is_accepted(model: Any, statistics: np.ndarray) -> bool:
    try:
        posterior = model.posterior(statistics)
    except DomainError:
        return False
    assert np.isfinite(posterior.natural).all()
    return True


@every_example
def test_broken_statistics_give_no_posterior(example: Any) -> None:
    model, q, events = learned(example)
    good = model.expected(q, events)
    rows = [good]
    for i in range(model.size):
        rows.extend(good.copy() for _ in range(4))
        for row, bad in zip(rows[-4:], (np.nan, np.inf, -np.inf, 1e250), strict=True):
            row[i] = bad
    np.testing.assert_array_equal(model.proper(np.stack(rows)), [True] + [False] * (len(rows) - 1))
    np.testing.assert_array_equal(model.proper(np.stack(rows)), [is_accepted(model, row) for row in rows])
    for broken in (-good, good[:-1], np.append(good, 0.0), good[None, :]):
        assert not is_accepted(model, broken)
    for shape in ((3, model.size - 1), (model.size,)):
        with pytest.raises(DomainError):
            model.proper(np.zeros(shape))
    assert model.proper(np.zeros((0, model.size))).shape == (0,)


def test_garbage_gives_a_proper_posterior_or_a_domain_error() -> None:
    model = model_of(MIXTURE_EXAMPLES[2])
    numbers = st.one_of(st.floats(), st.floats(-10, 10), st.just(0.0))

    @settings(max_examples=200, deadline=None)
    @given(st.lists(numbers, min_size=model.size, max_size=model.size), st.booleans())
    def check(values: list[float], positive: bool) -> None:
        statistics = np.abs(values) if positive else np.array(values)
        assert is_accepted(model, statistics) == model.proper(statistics[None])[0]

    check()


HUGE = np.array([[1e100, 1e100], [-1e100, 1e100], [1e100, -1e100], [-1e100, -1e100]])
ORDINARY = MIXTURE_EXAMPLES[0].events(np.random.default_rng(6), 30)
HARD = {
    "one": np.array([[3.0, 4.0]]),
    "constant": np.full((20, 2), 7.0),
    "two places": np.repeat([[1.0, 2.0], [3.0, 4.0]], 9, axis=0),
    "constant field": np.column_stack([ORDINARY[:, 0], np.full(30, 1e7)]),
    "a line": ORDINARY[:, :1] * [1.0, -2.0],
    "huge": HUGE,
    "huge and constant": np.repeat(HUGE[:1], 5, axis=0),
    "one huge": np.vstack([ORDINARY, HUGE[:1]]),
    "tiny": ORDINARY * 1e-300,
    "subnormal": np.array([[5e-324, 0.0], [0.0, 5e-324], [0.0, 0.0]]),
    "all sizes": np.vstack([10.0 ** np.arange(-300, 100, 20.0)] * 2).T,
}


@pytest.mark.parametrize("events", HARD.values(), ids=HARD)
@pytest.mark.parametrize("prior", [{}, {"scale": 1e-50, "kappa": 1e-50, "concentration": 1e-50}, {"scale": 1e50}])
def test_hard_events_are_absorbed(events: np.ndarray, prior: dict[str, Any]) -> None:
    """Warnings are errors in this suite, so an overflow on the way fails as well."""
    model = build("gaussian_mixture", fields=["u", "v"], components=5, prior=prior)
    statistics = model.empty()
    for part in (events, ORDINARY, HUGE, events):
        at = base.Base(0, 0, statistics, model.posterior(statistics))
        step = svb.step(model, at, part)
        assert np.isfinite(step.score)
        assert np.isfinite(step.statistics).all()
        statistics = model.merge(statistics, step.statistics)
        q = model.posterior(statistics)
        assert np.isfinite(q.natural).all()
        assert np.isfinite(q.log_predictive(events)).all()
        assert np.isfinite(model.elbo(q, part))
        assert all(not np.isinf(value).any() for m in q.moments().values() for value in m[:2])
    assert q.absorbed.n.sum() == pytest.approx(2 * len(events) + 34, rel=1e-9)


def test_fewer_distinct_events_than_components_leave_some_at_the_prior() -> None:
    model = build("gaussian_mixture", fields=["u", "v"], components=5)
    q = model.posterior(model.expected(model.posterior(model.empty()), HARD["two places"]))
    assert q.absorbed.n.tolist()[2:] == [0.0, 0.0, 0.0]
    assert sorted(q.absorbed.n[:2].tolist()) == [9.0, 9.0]
    np.testing.assert_array_equal(q.components.mean[2:], np.zeros((3, 2)))


def test_an_empty_component_is_born_where_no_other_explains_the_events() -> None:
    """The others are tight, and the new cluster is nearer to the prior mean, in its units, than to them in theirs."""
    rng = np.random.default_rng(7)
    model = build("gaussian_mixture", fields=["u", "v"], components=3, prior={"kappa": 0.1, "scale": 0.25})
    first = np.repeat([[-2.0, -2.0], [2.0, 2.0]], 100, axis=0)
    statistics = model.expected(model.posterior(model.empty()), first)
    q = model.posterior(statistics)
    assert (q.absorbed.n > 0).sum() == 2
    new = rng.normal(size=(50, 2)) * 0.1 + [3.0, -3.0]
    step = svb.step(model, base.Base(1, 200, statistics, q), new)
    born = model.posterior(model.merge(statistics, step.statistics))
    newest = int(np.flatnonzero(q.absorbed.n == 0)[0])
    assert born.absorbed.n[newest] == pytest.approx(50, abs=1e-6)
    np.testing.assert_allclose(born.components.mean[newest], [3.0, -3.0], atol=0.1)
    assert born.log_predictive(new).mean() > q.log_predictive(new).mean() + 3
