"""What every conjugate model must satisfy: statistics that merge in any order and grouping, and their posterior.

Statistical checks leave 6 standard errors: each false alarm is below 2e-9, all of them below 1e-6 a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.families import FAMILIES
from streaminfer.models import MODELS
from streaminfer.models.model import Model, is_conjugate, is_of_words
from streaminfer.models.options import Section
from tests.contracts.model_harness import absorbed, assert_same, every_example
from tests.models.examples import EXAMPLES, Example, model_of
from tests.models.latent_examples import LATENT_EXAMPLES

Fold = Callable[[Model, Sequence[np.ndarray]], np.ndarray]


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
    of_words = {kind for kind, model in MODELS.items() if is_of_words(model)}  # see test_word_models
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
