"""What every family must satisfy: its log partition generates its moments, and its two parametrisations agree.

Statistical checks leave 6 standard errors: each false alarm is below 2e-9, all of them below 1e-5 a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streaminfer.families import FAMILIES
from tests.families.examples import CASES, EXAMPLES, IDS

every_case = pytest.mark.parametrize(("name", "parameters"), CASES, ids=IDS)
STANDARD_ERRORS = 6
DRAWS = 100_000


def derivative(function: Callable[[np.ndarray], Any], eta: np.ndarray) -> np.ndarray:
    """Central differences of fourth order; (size of eta, ...)."""
    rows = []
    for i in range(eta.size):
        step = np.zeros(eta.size)
        step[i] = 1e-3 * max(abs(eta[i]), 0.1)
        near = np.subtract(function(eta + step), function(eta - step))
        far = np.subtract(function(eta + 2 * step), function(eta - 2 * step))
        rows.append((8 * near - far) / (12 * step[i]))
    return np.array(rows)


def assert_gradient(log_partition: Callable[[np.ndarray], float], expected: np.ndarray, eta: np.ndarray) -> None:
    np.testing.assert_allclose(derivative(log_partition, eta), expected, rtol=1e-7, atol=1e-7)


def test_every_family_has_examples() -> None:
    assert set(EXAMPLES) == set(FAMILIES)
    assert all(len(rows) >= 2 for rows in EXAMPLES.values())


@every_case
def test_round_trips(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    eta = family.to_natural(parameters)
    assert eta.dtype == np.float64
    assert eta.ndim == 1
    back = family.from_natural(eta)
    assert isinstance(back, family.Parameters)
    for value, original in zip(back, parameters, strict=True):
        np.testing.assert_allclose(value, original, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(family.to_natural(back), eta, rtol=1e-10, atol=1e-12)


@every_case
def test_the_gradient_of_the_log_partition_is_the_mean_of_the_statistics(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    eta = family.to_natural(parameters)
    assert_gradient(family.log_partition, family.expected_statistics(eta), eta)
    with pytest.raises(AssertionError):
        assert_gradient(lambda e: 0.5 * family.log_partition(e), family.expected_statistics(eta), eta)


@every_case
def test_the_hessian_is_the_covariance_of_the_statistics(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    eta = family.to_natural(parameters)
    fisher = derivative(family.expected_statistics, eta)
    np.testing.assert_allclose(fisher, fisher.T, rtol=1e-6, atol=1e-7)
    assert np.linalg.eigvalsh(0.5 * (fisher + fisher.T)).min() > -1e-7
    draws = family.sample(parameters, np.random.default_rng(1), DRAWS)
    around = family.sufficient_statistics(draws) - family.expected_statistics(eta)
    standard_error = around.std(axis=0) / np.sqrt(DRAWS)
    assert (np.abs(around.mean(axis=0)) <= STANDARD_ERRORS * standard_error).all()
    for i, row in enumerate(fisher):
        products = around[:, [i]] * around
        assert (np.abs(products.mean(axis=0) - row) <= STANDARD_ERRORS * products.std(axis=0) / np.sqrt(DRAWS)).all()


@every_case
def test_the_log_normaliser_is_the_log_partition(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    log_partition = family.log_partition(family.to_natural(parameters))
    assert family.log_normaliser(parameters) == pytest.approx(log_partition, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_kl_is_the_bregman_divergence_of_the_log_partition(name: str) -> None:
    family = FAMILIES[name]
    for p in EXAMPLES[name]:
        assert family.kl(p, p) == pytest.approx(0, abs=1e-12)
        for q in EXAMPLES[name]:
            eta_p, eta_q = family.to_natural(p), family.to_natural(q)
            linear = (eta_q - eta_p) @ family.expected_statistics(eta_p)
            bregman = family.log_partition(eta_q) - family.log_partition(eta_p) - linear
            assert family.kl(p, q) == pytest.approx(bregman, rel=1e-10, abs=1e-10)
            assert p is q or family.kl(p, q) > 1e-3


@every_case
def test_the_domain_holds_the_examples_and_nothing_broken(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    eta = family.to_natural(parameters)
    assert family.in_domain(eta) is True
    assert not family.in_domain(-eta)
    assert not family.in_domain(np.zeros_like(eta))
    assert not family.in_domain(eta[None, :])
    assert not family.in_domain(eta[:0])
    for i in range(eta.size):
        for bad in (np.nan, np.inf, -np.inf):
            broken = eta.copy()
            broken[i] = bad
            assert not family.in_domain(broken)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_domain_check_never_warns_on_garbage(name: str) -> None:
    family = FAMILIES[name]
    size = family.to_natural(EXAMPLES[name][0]).size
    rng = np.random.default_rng(2)
    for _ in range(200):
        garbage = rng.normal(size=size) * 10.0 ** rng.uniform(-300, 300, size)
        assert family.in_domain(garbage) in (True, False)


@every_case
def test_sampling_repeats_with_its_generator(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    once, again = (
        family.sufficient_statistics(family.sample(parameters, np.random.default_rng(3), 5)) for _ in range(2)
    )
    np.testing.assert_array_equal(once, again)
    assert once.shape == (5, family.to_natural(parameters).size)
