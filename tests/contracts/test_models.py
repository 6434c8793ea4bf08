"""What every conjugate model must satisfy: statistics that merge in any order and grouping, and their posterior.

Statistical checks leave 6 standard errors: each false alarm is below 2e-9, all of them below 1e-6 a run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.families import FAMILIES
from streaminfer.models import MODELS
from streaminfer.models.lda import Lda
from streaminfer.models.model import DomainError, Model, Posterior, is_conjugate
from streaminfer.models.options import OptionsError, Section
from tests.models.examples import EXAMPLES, Example, model_of
from tests.models.latent_examples import LATENT_EXAMPLES

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
Fold = Callable[[Model, Sequence[np.ndarray]], np.ndarray]


def absorbed(model: Model, events: np.ndarray) -> Posterior:
    return model.posterior(model.statistics(events))


def assert_same(a: Posterior, b: Posterior, tolerance: float = 1e-10) -> None:
    """Every derived moment, and the evidence."""
    for name, ours in a.moments().items():
        for value, other in zip(ours, b.moments()[name], strict=True):
            if value is not None:
                scale = np.abs(other).max()
                np.testing.assert_allclose(value, other, rtol=tolerance, atol=tolerance * scale)
    assert a.log_evidence() == pytest.approx(b.log_evidence(), rel=tolerance, abs=tolerance)


def by_merging(model: Model, batches: Sequence[np.ndarray]) -> np.ndarray:
    merged = reduce(model.merge, [model.statistics(batch) for batch in batches], model.empty())
    return model.posterior(merged).natural


def by_increments(model: Model, batches: Sequence[np.ndarray]) -> np.ndarray:
    """Streaming variational Bayes: eta + (posterior of the batch - prior)."""
    prior = model.posterior(model.empty()).natural
    return prior + sum(absorbed(model, batch).natural - prior for batch in batches)


def prior_in_every_batch(model: Model, batches: Sequence[np.ndarray]) -> np.ndarray:
    """The classical mistake: the increment is the posterior of the batch."""
    return model.posterior(model.empty()).natural + sum(absorbed(model, batch).natural for batch in batches)


def assert_exact(fold: Fold, model: Model, events: np.ndarray, cuts: Sequence[int], order: Sequence[int]) -> None:
    """A fold over minibatches, cut and ordered in any way, gives the batch posterior."""
    batches = [part for part in np.split(events, sorted(cuts)) if len(part)]
    shuffled = [batches[i] for i in order if i < len(batches)]
    exact = absorbed(model, events).natural
    np.testing.assert_allclose(fold(model, shuffled), exact, rtol=1e-10, atol=1e-10)


def test_the_table_is_by_kind_and_every_model_has_examples() -> None:
    assert all(model.kind == kind for kind, model in MODELS.items())
    of_words = {kind for kind, model in MODELS.items() if issubclass(model, Lda)}  # see test_word_models
    assert {example.kind for example in EXAMPLES + LATENT_EXAMPLES} == set(MODELS) - of_words
    assert all(is_conjugate(model_of(example)) for example in EXAMPLES)


@pytest.mark.parametrize("kind", MODELS)
def test_options_are_documented_and_end_with_the_prior(kind: str) -> None:
    options = MODELS[kind].options.options
    assert options[-1].name == "prior"
    assert isinstance(options[-1].rule, Section)
    assert all(not option.required for option in options[-1].rule.options)
    for option in (*options, *options[-1].rule.options):
        assert len(option.doc.split()) >= 3, option.name
    schema = MODELS[kind].options.json_schema()
    assert schema["properties"]["prior"]["properties"].keys() == {o.name for o in options[-1].rule.options}
    assert MODELS[kind].exactness in {"exact", "bound", "approximate"}


@every_example
def test_no_events_give_the_prior(example: Example) -> None:
    model = model_of(example)
    prior = model.posterior(model.empty())
    assert model.empty().shape == (model.size,)
    assert prior.log_evidence() == pytest.approx(0, abs=1e-12)
    assert FAMILIES[prior.family].in_domain(prior.natural)


@every_example
def test_any_partition_in_any_order_gives_the_batch_posterior(example: Example) -> None:
    model = model_of(example)
    events = example.events(np.random.default_rng(1), 60)

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.integers(0, 60), max_size=8), st.permutations(range(9)))
    def check(cuts: list[int], order: list[int]) -> None:
        assert_exact(by_merging, model, events, cuts, order)
        assert_exact(by_increments, model, events, cuts, order)

    check()


@every_example
def test_the_prior_counted_in_every_batch_is_found(example: Example) -> None:
    events = example.events(np.random.default_rng(1), 60)
    with pytest.raises(AssertionError):
        assert_exact(prior_in_every_batch, model_of(example), events, [20, 40], [2, 0, 1])


@every_example
def test_merging_is_associative_and_commutative(example: Example) -> None:
    model = model_of(example)
    rng = np.random.default_rng(2)
    for sizes in ([5, 9, 30], [1, 1, 1], [40, 1, 200]):
        a, b, c = (model.statistics(example.events(rng, n)) for n in sizes)
        left = model.posterior(model.merge(model.merge(a, b), c))
        assert_same(left, model.posterior(model.merge(a, model.merge(b, c))))
        assert_same(left, model.posterior(model.merge(c, model.merge(b, a))))


@every_example
def test_nothing_merges_exactly(example: Example) -> None:
    model = model_of(example)
    some = model.statistics(example.events(np.random.default_rng(3), 7))
    before = some.copy()
    np.testing.assert_array_equal(model.merge(model.empty(), some), some)
    np.testing.assert_array_equal(model.merge(some, model.empty()), some)
    np.testing.assert_array_equal(model.merge(model.empty(), model.empty()), model.empty())
    model.merge(some, model.scale(some, 0.5))
    np.testing.assert_array_equal(some, before)


@every_example
def test_half_of_each_event_twice_is_each_event_once(example: Example) -> None:
    model = model_of(example)
    events = example.events(np.random.default_rng(4), 40)
    once, twice = model.statistics(events), model.statistics(np.vstack([events, events]))
    assert_same(model.posterior(model.scale(twice, 0.5)), model.posterior(once))
    np.testing.assert_array_equal(model.scale(once, 1.0), once)
    nothing = model.posterior(model.scale(once, 0.0))
    np.testing.assert_allclose(nothing.natural, model.posterior(model.empty()).natural, rtol=1e-14)
    assert_same(model.posterior(model.merge(model.scale(once, 0.0), twice)), model.posterior(twice))


@every_example
def test_weighted_events_are_single_ones_scaled_and_merged(example: Example) -> None:
    model = model_of(example)
    rng = np.random.default_rng(5)
    events = example.events(rng, 30)
    weights = rng.random(30) ** 3
    weights[[3, 7]], weights[11] = 0.0, 1.0
    single = [model.scale(model.statistics(event[None]), w) for event, w in zip(events, weights, strict=True)]
    weighted = model.posterior(model.statistics(events, weights))
    assert_same(weighted, model.posterior(reduce(model.merge, single, model.empty())))
    assert_same(model.posterior(model.statistics(events, np.ones(30))), absorbed(model, events))
    left = np.delete(np.arange(30), [3, 7])
    assert_same(weighted, model.posterior(model.statistics(events[left], weights[left])))


def extremes(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """An event (1, fields) of the largest values, and one of the smallest."""
    largest = {"number": 1e100, "positive": 1e100, "count": 2.0**53, "binary": 1.0, "category": 0.0}
    smallest = {"number": -1e100, "positive": 1e-300, "count": 0.0, "binary": 0.0, "category": 1.0}
    events = ([[values[field.kind] for field in model.fields]] for values in (largest, smallest))
    large, small = map(np.array, events)
    return large, small


def some_rows(model: Model, example: Example, seed: int, k: int = 40) -> np.ndarray:
    """Statistics of sets of 0, 1, 2 and more events."""
    rng = np.random.default_rng(seed)
    sizes = [0, 0, 1, 1, 2, 3, *rng.integers(0, 30, k - 6)]
    return np.stack([model.statistics(example.events(rng, n)) if n else model.empty() for n in sizes])


def is_accepted(model: Model, statistics: np.ndarray) -> bool:
    try:
        model.posterior(statistics)
    except DomainError:
        return False
    return True


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


@every_example
def test_the_prior_is_a_section_of_a_spec_and_back(example: Example) -> None:
    model = model_of(example)
    own = model.prior_options
    assert model.with_prior(json.loads(json.dumps(own))) == model
    assert model.with_prior({}) == model
    assert model.with_prior(dict.fromkeys(own)) == model
    for name, value in own.items():
        other = [2.5 * v + 0.1 for v in value] if isinstance(value, list) else 2.5 * value
        changed = model.with_prior({name: other})
        assert changed.prior_options == {**own, name: other}
        assert (changed.fields, changed.size) == (model.fields, model.size)
        assert changed != model
        for bad in ("x", float("nan"), 1e60, [1.0] * 999):
            with pytest.raises(OptionsError, match=f"prior.{name}"):
                model.with_prior({name: bad})
    with pytest.raises(OptionsError, match=r"prior\.colour"):
        model.with_prior({"colour": 1.0})


def changed_numbers(prior: Mapping[str, Any], factor: float) -> Iterator[dict[str, Any]]:
    """Priors with one number times the factor."""
    for name, value in prior.items():
        if not isinstance(value, list):
            yield {**prior, name: value * factor}
            continue
        for i in range(len(value)):
            yield {**prior, name: [v * factor if i == j else v for j, v in enumerate(value)]}


@every_example
def test_a_pooled_prior_is_a_maximum_of_the_evidence(example: Example) -> None:
    """No number changed by 1% adds more than 1e-3, which also holds where sets that are all alike reach the bounds."""
    model = model_of(example)
    rows = some_rows(model, example, 17)
    pooled = model.pooled(rows)
    best, before = (float(m.log_evidences(rows).sum()) for m in (pooled, model))
    assert best > before + 1
    for factor in (0.99, 1.01):
        for prior in changed_numbers(pooled.prior_options, factor):
            assert model.with_prior(prior).log_evidences(rows).sum() <= best + 1e-3, prior
    again = pooled.pooled(rows)
    assert best <= again.log_evidences(rows).sum() <= best + 1e-3


@every_example
def test_fewer_than_two_sets_of_events_change_no_prior(example: Example) -> None:
    model = model_of(example)
    one = model.statistics(example.events(np.random.default_rng(18), 30))
    for rows in (np.zeros((0, model.size)), one[None], np.stack([model.empty(), one, model.empty()])):
        assert model.pooled(rows) is model


@every_example
def test_pooling_survives_extreme_events(example: Example) -> None:
    """Warnings are errors in this suite."""
    model = model_of(example)
    large, small = extremes(model)
    ordinary = some_rows(model, example, 19, 8)
    for rows in ([large], [small], [large, small], [np.vstack([large, small, large])], [ordinary]):
        statistics = np.vstack([model.statistics(row) if row is not ordinary else row for row in [*rows, *rows]])
        statistics = np.vstack([statistics, model.scale(ordinary, 2.0**-900)])
        before = model.log_evidences(statistics).sum()
        assert model.pooled(statistics).log_evidences(statistics).sum() >= before


@every_example
def test_the_evidence_is_the_product_of_the_predictives(example: Example) -> None:
    model = model_of(example)
    events = example.events(np.random.default_rng(5), 40)
    statistics, total = model.empty(), 0.0
    for row in events:
        total += float(model.posterior(statistics).log_predictive(row[None, :])[0])
        statistics = model.merge(statistics, model.statistics(row[None, :]))
    assert absorbed(model, events).log_evidence() == pytest.approx(total, rel=1e-9)


@every_example
def test_natural_parameters_are_those_of_the_family(example: Example) -> None:
    posterior = absorbed(model_of(example), example.events(np.random.default_rng(6), 50))
    family = FAMILIES[posterior.family]
    assert family.in_domain(posterior.natural)
    back = family.to_natural(family.from_natural(posterior.natural))
    np.testing.assert_allclose(back, posterior.natural, rtol=1e-10, atol=1e-10)


@every_example
def test_draws_have_the_moments(example: Example) -> None:
    posterior = absorbed(model_of(example), example.events(np.random.default_rng(7), 100))
    n = 20_000
    draws = posterior.sample(np.random.default_rng(8), n)
    moments = posterior.moments()
    assert list(draws) == list(moments)
    for name, (mean, sd, cov) in moments.items():
        assert draws[name].shape == (n, *mean.shape)
        assert sd.shape == mean.shape
        assert (np.abs(draws[name].mean(axis=0) - mean) <= 6 * sd / np.sqrt(n)).all()
        squares = (draws[name] - mean) ** 2
        assert (np.abs(squares.mean(axis=0) - sd**2) <= 6 * squares.std(axis=0) / np.sqrt(n)).all()
        assert (cov is not None) == (mean.ndim == 1)
        if cov is not None:
            around = draws[name] - mean
            products = around[:, :, None] * around[:, None, :]
            assert (np.abs(products.mean(axis=0) - cov) <= 6 * products.std(axis=0) / np.sqrt(n) + 1e-15).all()
            np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd, rtol=1e-12)


@every_example
def test_the_predictive_is_the_mean_likelihood_seen_through_one_more_event(example: Example) -> None:
    """p(x | events) = p(events, x) / p(events), for many x at once."""
    model = model_of(example)
    rng = np.random.default_rng(9)
    statistics = model.statistics(example.events(rng, 20))
    posterior, new = model.posterior(statistics), example.events(rng, 15)
    ratio = [
        model.posterior(model.merge(statistics, model.statistics(row[None, :]))).log_evidence()
        - posterior.log_evidence()
        for row in new
    ]
    np.testing.assert_allclose(posterior.log_predictive(new), ratio, rtol=1e-9, atol=1e-9)
    assert posterior.log_predictive(new[:0]).shape == (0,)


@every_example
def test_broken_statistics_give_no_posterior(example: Example) -> None:
    model = model_of(example)
    good = model.statistics(example.events(np.random.default_rng(10), 30))
    for i in range(model.size):
        for bad in (np.nan, np.inf, -np.inf):
            broken = good.copy()
            broken[i] = bad
            with pytest.raises(DomainError):
                model.posterior(broken)
    negative = good.copy()
    negative[0] = -1.0
    for broken in (negative, -good, good[:-1], np.append(good, 0.0), good[None, :]):
        with pytest.raises(DomainError):
            model.posterior(broken)


@every_example
def test_garbage_gives_a_proper_posterior_or_a_domain_error(example: Example) -> None:
    """Warnings are errors in this suite, so an overflow on the way fails as well."""
    model = model_of(example)
    numbers = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-10, 10), st.just(0.0))

    @settings(max_examples=150, deadline=None)
    @given(st.lists(numbers, min_size=model.size, max_size=model.size), st.booleans())
    def check(values: list[float], positive: bool) -> None:
        statistics = np.abs(values) if positive else np.array(values)
        try:
            posterior: Any = model.posterior(statistics)
        except DomainError:
            return
        assert np.isfinite(posterior.natural).all()
        assert np.isfinite(model.merge(statistics, model.scale(statistics, 0.5))).all()
        assert all(not np.isinf(value).any() for m in posterior.moments().values() for value in m[:2])

    check()


@every_example
def test_events_with_extreme_values_are_absorbed(example: Example) -> None:
    model = model_of(example)
    row, other = extremes(model)
    posterior = absorbed(model, np.vstack([row, other, row, other, row, row]))
    assert np.isfinite(posterior.natural).all()
    assert np.isfinite(posterior.log_predictive(np.vstack([row, other]))).all()
    assert np.isfinite(posterior.log_evidence())
    assert all(np.isfinite(value).all() for m in posterior.moments().values() for value in m[:2])
