"""What the posterior of every conjugate model must satisfy.

Statistical checks leave 6 standard errors: each false alarm is below 2e-9, all of them below 1e-6 a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.families import FAMILIES
from streaminfer.models.model import DomainError
from tests.contracts.model_harness import absorbed, every_example, extremes
from tests.models.examples import Example, model_of


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
