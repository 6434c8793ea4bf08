"""Moments, effective draws and retained draws of several chains.

Statistical checks leave 5.5 standard errors: each false alarm is below 4e-8.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streaminfer.models.model import DomainError
from streaminfer.sampling.pooled import effective, pooling
from streaminfer.sampling.pooled.pooling import Chain, Pooled, Statistics, pool

ROOM = 5.5


def equal(*draws: np.ndarray) -> list[Chain]:
    return [Chain(each, np.ones(len(each))) for each in draws]


def pooled(chains: list[Chain], complete: bool = True, seed: int = 0) -> Pooled:
    return pool(chains, complete, np.random.default_rng(seed))


def some(seed: int = 1, d: int = 3, lengths: tuple[int, ...] = (400, 300, 350)) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) for n in lengths]


@pytest.mark.parametrize("d", [1, 3, 64, 65])
def test_moments_are_those_of_all_draws(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.models.targets.parts.NUMBERS", 70)
    draws = some(d=d)
    found, every = pooled(equal(*draws)), np.concatenate(draws)
    weight, mean, second = found.statistics
    assert (weight, found.n_draws) == (1050, 1050)
    np.testing.assert_allclose(mean, every.mean(axis=0), rtol=1e-12, atol=1e-14)
    cov = np.cov(every, rowvar=False, ddof=0).reshape(d, d)
    np.testing.assert_allclose(second, cov if d <= 64 else cov.diagonal(), rtol=1e-10, atol=1e-12)
    if d <= 64:
        np.testing.assert_array_equal(second, second.T)


def test_weights_count() -> None:
    rng, draws = np.random.default_rng(2), some()
    weights = [rng.uniform(0, 1e-3, len(each)) for each in draws]
    found = pooled([Chain(*each) for each in zip(draws, weights, strict=True)])
    every, w = np.concatenate(draws), np.concatenate(weights)
    assert found.statistics.weight == pytest.approx(w.sum())
    np.testing.assert_allclose(found.statistics.mean, np.average(every, axis=0, weights=w), rtol=1e-11)
    np.testing.assert_allclose(found.statistics.second, np.cov(every, rowvar=False, ddof=0, aweights=w), rtol=1e-10)
    kish = w.sum() ** 2 / (len(w) * (w**2).sum())
    assert found.n_effective == pytest.approx(kish * effective.least(draws), rel=1e-12)


def test_a_mean_of_ten_million_deviations_costs_no_digits() -> None:
    draws = some()
    near, far = pooled(equal(*draws)), pooled(equal(*(each + 1e7 for each in draws)))
    rounding = 3e-9  # of the draws themselves
    np.testing.assert_allclose(far.statistics.mean - 1e7, near.statistics.mean, atol=rounding)
    np.testing.assert_allclose(far.statistics.second, near.statistics.second, atol=10 * rounding)
    every = np.concatenate(draws) + 1e7
    plain = (every**2).mean(axis=0) - every.mean(axis=0) ** 2
    assert np.abs(plain - near.statistics.variances).max() > 1e-4


def test_the_order_of_draws_in_a_chain_changes_no_moment() -> None:
    rng, draws = np.random.default_rng(3), some()
    found, mixed = pooled(equal(*draws)), pooled(equal(*(rng.permutation(each) for each in draws)))
    turned = pooled(equal(*draws[::-1]))
    for other in (mixed, turned):
        np.testing.assert_allclose(other.statistics.vector, found.statistics.vector, rtol=1e-11, atol=1e-13)
    assert turned.n_effective == pytest.approx(found.n_effective, rel=1e-9)


def test_an_unfinished_segment_is_the_last_half_of_each_chain() -> None:
    draws = some(lengths=(400, 301, 1, 0))
    logs = [each[:, 0] ** 2 for each in draws]
    chains = [Chain(each, np.ones(len(each)), log) for each, log in zip(draws, logs, strict=True)]
    halves = [Chain(*(part[len(part) // 2 :] for part in chain)) for chain in chains]  # type: ignore[union-attr]
    found, expected = pooled(chains, complete=False), pooled(halves)
    assert found.n_draws == 200 + 151 + 1
    np.testing.assert_array_equal(found.statistics.vector, expected.statistics.vector)
    np.testing.assert_array_equal(found.retained, expected.retained)
    assert found.n_effective == expected.n_effective
    assert found.by_chain == (200, 151, 1, 0)


def test_a_log_density_that_mixes_slowly_counts() -> None:
    rng = np.random.default_rng(4)
    draws = rng.standard_normal((2, 2000, 2))
    slow = np.repeat(rng.standard_normal((2, 20)), 100, axis=1)
    with_it = pooled([Chain(each, np.ones(2000), log) for each, log in zip(draws, slow, strict=True)])
    unknown = pooled([Chain(each, np.ones(2000), np.zeros(0)) for each in draws])
    assert with_it.n_effective < 200
    assert unknown.n_effective > 2000
    assert unknown.n_effective == pooled(equal(*draws)).n_effective


def test_of_many_numbers_those_all_over_the_draw_are_watched() -> None:
    rng = np.random.default_rng(5)
    draws = rng.standard_normal((2, 500, 1000))
    draws[:, :, 600:700] = np.repeat(rng.standard_normal((2, 5, 100)), 100, axis=1)
    assert pooled(equal(*draws)).n_effective < 60


def test_retained_draws_are_spread_evenly_over_chains_and_time() -> None:
    """A draw is (chain, time): gaps between neighbours are equal, up to rounding."""
    draws = [np.column_stack([np.full(n, c), np.arange(n)]).astype(float) for c, n in enumerate((4000, 2000, 3999))]
    found = pooled(equal(*draws))
    assert len(found.retained) == 1000
    assert found.by_chain == (400, 200, 400)
    starts = np.cumsum([0, *found.by_chain])
    for c, (begin, end) in enumerate(pairwise(starts)):
        chain, time = found.retained[begin:end].T
        assert (chain == c).all()
        assert set(np.diff(time)) <= {9.0, 10.0}
        assert time[0] < 10
        assert time[-1] >= len(draws[c]) - 11
    np.testing.assert_array_equal(found.retained, pooled(equal(*draws), seed=9).retained)


def test_few_draws_are_all_retained_in_their_order() -> None:
    draws = some()
    found = pooled(equal(draws[0], draws[1]))
    np.testing.assert_array_equal(found.retained, np.concatenate(draws[:2]))
    assert found.by_chain == (400, 300)


def test_retained_draws_have_a_bounded_size() -> None:
    draws = np.ones((20, 100_000)) * np.arange(20)[:, None]
    found = pooled(equal(draws))
    assert found.retained.nbytes <= 8 << 20 < found.retained.nbytes + 2 * draws[0].nbytes
    assert found.statistics.second.shape == (100_000,)


def test_retained_draws_of_different_weights_are_unbiased(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often each is there, over many resamplings: as its weight says, and never one more or less than that."""
    monkeypatch.setattr(pooling, "MOST_RETAINED", 23)
    weights = (1 + np.arange(60)) ** -0.55
    weights[[0, 7, 59]] = 0
    draws = np.arange(60.0)[:, None]
    chains = [Chain(draws[:40], weights[:40]), Chain(draws[40:], weights[40:])]
    rng, repeats, counts = np.random.default_rng(), 4000, np.zeros(60)
    expected = 23 * weights / weights.sum()
    for _ in range(repeats):
        found = pool(chains, True, rng)
        assert sum(found.by_chain) == len(found.retained) == 23
        assert (found.retained[: found.by_chain[0]] < 40).all()
        assert (found.retained[found.by_chain[0] :] >= 40).all()
        each = np.bincount(found.retained[:, 0].astype(int), minlength=60)
        assert (each >= np.floor(expected - 1e-9)).all()
        assert (each <= np.ceil(expected + 1e-9)).all()
        counts += each
    part = expected - np.floor(expected)
    assert (np.abs(counts / repeats - expected) <= ROOM * np.sqrt(part * (1 - part) / repeats) + 1e-12).all()


@pytest.mark.parametrize("uniform", [0.0, 1 - 2.0**-53])
def test_a_draw_without_weight_is_never_retained(uniform: float) -> None:
    """Not even at the ends of what is random."""

    class Fixed:
        def random(self) -> float:
            return uniform

    chain = Chain(np.arange(5.0)[:, None], np.array([0, 0.1, 0, 0.3, 0]))
    assert set(pool([chain], True, Fixed()).retained[:, 0]) <= {1.0, 3.0}  # type: ignore[arg-type]


def test_the_same_randomness_retains_the_same_draws() -> None:
    chains = [Chain(each, np.linspace(1, 0.1, len(each))) for each in some(lengths=(900, 900))]
    np.testing.assert_array_equal(pooled(chains, seed=3).retained, pooled(chains, seed=3).retained)
    assert not np.array_equal(pooled(chains, seed=3).retained, pooled(chains, seed=4).retained)


def test_no_draws_are_worth_nothing_and_no_chains_are_a_mistake() -> None:
    found = pooled(equal(np.zeros((0, 2)), np.zeros((0, 2))), complete=False)
    assert (found.n_draws, found.n_effective, found.by_chain) == (0, 0.0, (0, 0))
    assert found.retained.shape == (0, 2)
    assert not found.statistics.vector.any()
    weightless = pooled([Chain(np.ones((3, 2)), np.zeros(3))])
    assert (weightless.n_effective, weightless.by_chain) == (0.0, (0,))
    with pytest.raises(ValueError, match="no chains"):
        pooled([])


@pytest.mark.parametrize("d", [2, 65])
def test_statistics_there_and_back(d: int) -> None:
    found = pooled(equal(*some(d=d))).statistics
    again = Statistics.of(found.vector, d)
    assert len(found.vector) == pooling.statistics_size(d)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v[:-1], "statistics have shape"),
        (lambda v: np.where(np.arange(7) == 2, np.nan, v), "not finite"),
        (lambda v: np.where(np.arange(7) == 0, -1.0, v), "negative"),
        (lambda v: np.where(np.arange(7) == 6, -1.0, v), "negative"),
    ],
)
def test_statistics_of_no_draws_are_refused(change: Any, said: str) -> None:
    vector = pooled(equal(*some(d=2))).statistics.vector
    with pytest.raises(DomainError, match=said):
        Statistics.of(change(vector), 2)
