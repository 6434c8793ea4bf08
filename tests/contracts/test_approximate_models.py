"""What every model that is not conjugate must satisfy, whether its events are bounded, have variables or are filtered.

Statistical checks leave 6 standard errors: each false alarm is below 2e-9, all of them below 1e-6 a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.families import FAMILIES
from streaminfer.models.model import DomainError, Filter, Latent, Model, Posterior, is_conjugate
from streaminfer.variational.base import Base
from streaminfer.variational.methods import svb
from tests.contracts.model_harness import is_accepted
from tests.models.examples import Example, model_of
from tests.models.latent_examples import LATENT_EXAMPLES


def cases(examples: list[Example]) -> Any:
    return pytest.mark.parametrize("example", examples, ids=[example.name for example in examples])


LATENT = [example for example in LATENT_EXAMPLES if isinstance(model_of(example), Latent)]
ASCENDING = [example for example in LATENT if not isinstance(model_of(example), Filter)]
BINARY = [example for example in LATENT_EXAMPLES if model_of(example).fields[-1].kind == "binary"]
every_example, every_latent = cases(LATENT_EXAMPLES), cases(LATENT)


def learned(model: Model, statistics: np.ndarray, events: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The increment of a minibatch on the posterior of some statistics."""
    return svb.step(model, Base(1, 1, statistics, model.posterior(statistics)), events, weights).statistics


def streamed(model: Model, example: Example, seed: int, sizes: tuple[int, ...] = (30, 30, 40)) -> np.ndarray:
    """The statistics after minibatches of these sizes."""
    rng, statistics = np.random.default_rng(seed), model.empty()
    for n in sizes:
        statistics = model.merge(statistics, learned(model, statistics, example.events(rng, n)))
    return statistics


def assert_finite(model: Model, statistics: np.ndarray) -> Posterior:
    posterior = model.posterior(statistics)
    assert np.isfinite(statistics).all()
    assert np.isfinite(posterior.natural).all()
    assert all(np.isfinite(value).all() for m in posterior.moments().values() for value in m[:2])
    return posterior


@every_example
def test_an_increment_depends_on_its_base(example: Example) -> None:
    model = model_of(example)
    assert model.needs_base
    assert model.exactness in {"bound", "approximate"}
    assert model.methods[0] == "svb"
    assert not is_conjugate(model)
    assert isinstance(model, Latent | Filter)


@every_example
def test_no_events_give_the_prior(example: Example) -> None:
    model = model_of(example)
    prior = model.posterior(model.empty())
    assert model.empty().shape == (model.size,)
    assert FAMILIES[prior.family].in_domain(prior.natural)


@every_example
def test_merging_is_associative_and_commutative(example: Example) -> None:
    model = model_of(example)
    a, b, c = (streamed(model, example, seed, (n,)) for seed, n in enumerate((5, 1, 60)))
    left = model.posterior(model.merge(model.merge(a, b), c)).natural
    size = np.abs(left).max()
    for other in (model.merge(a, model.merge(b, c)), model.merge(c, model.merge(b, a))):
        np.testing.assert_allclose(model.posterior(other).natural, left, rtol=1e-12, atol=1e-14 * size)
    np.testing.assert_array_equal(model.merge(model.empty(), a), a)
    np.testing.assert_array_equal(model.merge(a, model.empty()), a)
    np.testing.assert_array_equal(model.scale(a, 1.0), a)
    nothing = model.posterior(model.scale(a, 0.0)).natural
    np.testing.assert_allclose(nothing, model.posterior(model.empty()).natural, rtol=1e-14)


@every_example
def test_rows_merge_and_scale_as_each_row_does(example: Example) -> None:
    model = model_of(example)
    a = np.stack([model.empty(), *(streamed(model, example, seed, (1 + seed,)) for seed in range(5))])
    b, weights = a[::-1].copy(), np.linspace(0, 1, len(a))
    before = a.copy()
    np.testing.assert_array_equal(model.merge(a, b), np.stack(list(map(model.merge, a, b))))
    np.testing.assert_array_equal(model.merge(a[None], b[None])[0], model.merge(a, b))
    scaled = [model.scale(row, float(w)) for row, w in zip(a, weights, strict=True)]
    np.testing.assert_array_equal(model.scale(a, weights), np.stack(scaled))
    np.testing.assert_array_equal(a, before)


@every_example
def test_proper_rows_are_those_with_a_posterior(example: Example) -> None:
    model = model_of(example)
    good = [model.empty(), streamed(model, example, 3, (1,)), streamed(model, example, 4)]
    rows = list(good)
    for i in range(model.size):
        for row in good:
            for bad in (np.nan, np.inf, -np.inf, -1.0, -1e3, 1e-9, 1e280, -1e280):
                broken = row.copy()
                broken[i] = bad
                rows.append(broken)
    accepted = [is_accepted(model, row) for row in rows]
    np.testing.assert_array_equal(model.proper(np.stack(rows)), accepted)
    assert accepted[:3] == [True, True, True]
    assert not all(accepted)
    assert not any(is_accepted(model, row) for row in rows if not np.isfinite(row).all())
    assert model.proper(np.zeros((0, model.size))).shape == (0,)
    for shape in ((3, model.size - 1), (3, model.size + 1), (model.size,)):
        with pytest.raises(DomainError):
            model.proper(np.zeros(shape))
    for row in (good[2][:-1], np.append(good[2], 0.0), good[2][None]):
        assert not is_accepted(model, row)


@every_example
def test_garbage_gives_a_finite_posterior_or_a_domain_error(example: Example) -> None:
    """Warnings are errors in this suite, so an overflow on the way fails as well."""
    model = model_of(example)
    numbers = st.one_of(st.floats(), st.floats(-2, 2), st.floats(0, 1e30), st.sampled_from([0.0, 1.0]))

    @settings(max_examples=30, deadline=None)
    @given(st.lists(numbers, min_size=model.size, max_size=model.size))
    def check(values: list[float]) -> None:
        statistics = np.array(values)
        accepted = is_accepted(model, statistics)
        assert model.proper(statistics[None])[0] == accepted
        if accepted:
            assert_finite(model, statistics)

    check()


@every_example
def test_an_event_of_no_weight_is_no_event(example: Example) -> None:
    model, rng = model_of(example), np.random.default_rng(5)
    start, events = streamed(model, example, 6), example.events(rng, 30)
    weights = rng.uniform(0.1, 1, 30)
    weights[[3, 7, 29]], weights[11] = 0.0, 1.0
    left = weights > 0
    change = learned(model, start, events, weights)
    np.testing.assert_allclose(change, learned(model, start, events[left], weights[left]), rtol=1e-10, atol=1e-12)
    ones = learned(model, start, events, np.ones(30))
    np.testing.assert_allclose(ones, learned(model, start, events), rtol=1e-12, atol=1e-13)


@every_latent
def test_expected_statistics_are_sums_over_events(example: Example) -> None:
    """In any order, and half of each event twice is each once."""
    model, rng = model_of(example), np.random.default_rng(7)
    q, events = model.posterior(streamed(model, example, 8)), example.events(rng, 40)
    once = model.expected(q, events)
    same = {"rtol": 1e-10, "atol": 1e-12 * np.abs(once).max()}
    np.testing.assert_allclose(model.expected(q, rng.permutation(events)), once, **same)
    np.testing.assert_allclose(model.expected(q, np.vstack([events, events]), np.full(80, 0.5)), once, **same)
    parts = model.merge(model.expected(q, events[:13]), model.expected(q, events[13:]))
    np.testing.assert_allclose(parts, once, **same)


@cases(ASCENDING)
@pytest.mark.parametrize("n", [1, 4, 200])
def test_the_bound_never_falls(example: Example, n: int) -> None:
    model = model_of(example)
    events = example.events(np.random.default_rng(9), n)
    q, bounds = model.posterior(model.empty()), []
    for _ in range(30):
        q = model.posterior(model.expected(q, events))
        bounds.append(model.elbo(q, events))
    steps = np.diff(bounds)
    assert (steps >= -1e-8 * np.abs(bounds[1:])).all()
    assert n == 1 or bounds[-1] > bounds[0]  # one event may be at the start already


@every_example
def test_natural_parameters_are_those_of_the_family(example: Example) -> None:
    model = model_of(example)
    posterior = model.posterior(streamed(model, example, 10))
    family = FAMILIES[posterior.family]
    assert family.in_domain(posterior.natural)
    back = family.to_natural(family.from_natural(posterior.natural))
    np.testing.assert_allclose(back, posterior.natural, rtol=1e-10, atol=1e-10)


@every_example
def test_draws_have_the_moments(example: Example) -> None:
    model, n = model_of(example), 20_000
    posterior = model.posterior(streamed(model, example, 11))
    draws, moments = posterior.sample(np.random.default_rng(12), n), posterior.moments()
    assert list(draws) == list(moments)
    for name, (mean, sd, cov) in moments.items():
        assert draws[name].shape == (n, *mean.shape)
        assert (np.abs(draws[name].mean(axis=0) - mean) <= 6 * sd / np.sqrt(n)).all()
        squares = (draws[name] - mean) ** 2
        assert (np.abs(squares.mean(axis=0) - sd**2) <= 6 * squares.std(axis=0) / np.sqrt(n)).all()
        if cov is not None:
            around = draws[name] - mean
            products = around[:, :, None] * around[:, None, :]
            assert (np.abs(products.mean(axis=0) - cov) <= 6 * products.std(axis=0) / np.sqrt(n)).all()
            np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd, rtol=1e-12)


@cases(BINARY)
def test_the_predictive_of_a_binary_target_sums_to_one(example: Example) -> None:
    model = model_of(example)
    posterior = model.posterior(streamed(model, example, 13))
    zeros = example.events(np.random.default_rng(14), 50)
    zeros[:, :-1] *= np.geomspace(1e-3, 1e6, 50)[:, None]
    zeros[:, -1] = 0
    ones = zeros.copy()
    ones[:, -1] = 1
    total = np.exp(posterior.log_predictive(zeros)) + np.exp(posterior.log_predictive(ones))
    np.testing.assert_allclose(total, 1, rtol=1e-13)
    assert posterior.log_predictive(zeros[:0]).shape == (0,)


def extreme_events(model: Model) -> list[np.ndarray]:
    """Minibatches of the largest and smallest values, of one event again and again, of nothing but zeros."""
    largest = {"number": 1e100, "positive": 1e100, "count": 2.0**53, "binary": 1.0, "category": 0.0}
    smallest = {"number": -1e100, "positive": 1e-300, "count": 0.0, "binary": 0.0, "category": 1.0}
    middle = {"number": 0.0, "positive": 1.0, "count": 1.0, "binary": 1.0, "category": 0.0}
    tiny = {"number": 1e-300, "positive": 1e-300, "count": 1.0, "binary": 0.0, "category": 0.0}
    rows = [np.array([[v[field.kind] for field in model.fields]]) for v in (largest, smallest, middle, tiny)]
    mixed = rows[0].copy()
    mixed[0, ::2] = rows[2][0, ::2]
    return [*rows, np.repeat(rows[0], 9, axis=0), np.repeat(rows[2], 9, axis=0), np.vstack([*rows, mixed] * 4)]


@every_example
def test_extreme_events_are_absorbed(example: Example) -> None:
    """From the prior and one after the other; warnings are errors in this suite."""
    model = model_of(example)
    together, everything = model.empty(), extreme_events(model)
    for events in everything:
        faint = np.append(np.full(len(events) - 1, 2.0**-1000), 1.0)
        for weights in (None, faint):
            assert_finite(model, learned(model, model.empty(), events, weights))
        for _ in range(3):
            together = model.merge(together, learned(model, together, events))
        posterior = assert_finite(model, together)
        with np.errstate(all="ignore"):
            assert not np.isnan(posterior.log_predictive(np.vstack(everything))).any()
