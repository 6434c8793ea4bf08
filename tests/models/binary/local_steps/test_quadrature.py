"""Expectations by the three rules against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.binary.local_steps import full, links, quadrature
from tests.models.binary.local_steps.tilted import LINKS, expectations

FAST = {"logistic": links.logistic, "probit": links.probit}
NARROW, MIDDLE, WIDE = (1e-3, 0.05, 0.19), (0.21, 0.5, 0.99), (1.01, 4.0, 30.0, 1e3)
every_link = pytest.mark.parametrize("name", ["logistic", "probit"])
every_width = pytest.mark.parametrize("deviation", [*NARROW, *MIDDLE, *WIDE])
IN_DEVIATIONS = (-40.0, -6.0, -1.0, 0.0, 2.0, 40.0)


def one(value: float) -> np.ndarray:
    return np.array([value])


@every_link
@every_width
@pytest.mark.parametrize("far", IN_DEVIATIONS)
@pytest.mark.parametrize("power", [1.0, 0.3])
def test_a_site_has_the_moments_of_its_event(name: str, deviation: float, far: float, power: float) -> None:
    """Also 40 deviations into the tail: mean and variance of the tilted density, to 1e-8."""
    mean, variance = far * deviation, deviation**2
    exact = expectations(LINKS[name], mean, deviation, power)
    (linear,), (precision,) = full.matched(FAST[name], one(mean), one(variance), one(power))
    found = 1 / (1 / variance + precision)
    assert found == pytest.approx(exact.variance, rel=1e-8)
    assert found * (mean / variance + linear) == pytest.approx(exact.mean, rel=1e-8, abs=1e-8 * np.sqrt(exact.variance))


@every_link
@pytest.mark.parametrize("deviation", [0.05, 0.19, 0.5, 0.99, 3.0])
@pytest.mark.parametrize("far", [-6.0, 0.0, 2.0])
@pytest.mark.parametrize("power", [30.0, 1e4, 1e6])
def test_an_event_that_counts_for_many_is_far_from_its_gaussian(
    name: str, deviation: float, far: float, power: float
) -> None:
    """As in the first step of svi, when a minibatch stands for the population."""
    mean, variance = far * deviation, deviation**2
    exact = expectations(LINKS[name], mean, deviation, power)
    (linear,), (precision,) = full.matched(FAST[name], one(mean), one(variance), one(power))
    found = 1 / (1 / variance + precision)
    assert found == pytest.approx(exact.variance, rel=1e-6)
    assert found * (mean / variance + linear) == pytest.approx(exact.mean, rel=1e-6, abs=1e-6 * np.sqrt(exact.variance))


@every_link
@every_width
@pytest.mark.parametrize("far", IN_DEVIATIONS)
@pytest.mark.parametrize("tilted", [False, True])
def test_expectations_are_those_of_brute_force(name: str, deviation: float, far: float, tilted: bool) -> None:
    """A power other than 1: an exponent of the tilted density, and a factor of the Gaussian."""
    mean, power = far * deviation, 0.7
    exact = expectations(LINKS[name], mean, deviation, power if tilted else 0.0, times=power)
    found = quadrature.expected(FAST[name], one(mean), one(deviation**2), one(power), tilted)
    np.testing.assert_allclose(found.log[0], exact.log, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.slope[0], exact.slope, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.bend[0], exact.bend, rtol=1e-7, atol=1e-10)
    if tilted:
        np.testing.assert_allclose(found.spread[0], exact.spread, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.variance[0], exact.variance, rtol=1e-8)


@every_link
def test_margins_of_all_widths_at_once_are_those_of_each(name: str) -> None:
    deviations = np.array([*NARROW, *MIDDLE, *WIDE])
    means, times = np.linspace(-3, 3, len(deviations)), np.linspace(0.5, 2, len(deviations))
    together = quadrature.expected(FAST[name], means, deviations**2, times, tilted=True)
    for i in range(len(means)):
        alone = quadrature.expected(FAST[name], means[[i]], deviations[[i]] ** 2, times[[i]], tilted=True)
        np.testing.assert_allclose([each[i] for each in together], [each[0] for each in alone], rtol=1e-12)


@every_link
def test_seven_points_are_too_few_for_a_wide_gaussian(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: one rule for all widths."""
    monkeypatch.setattr(quadrature, "NARROW", 1e9)
    monkeypatch.setattr(quadrature, "MIDDLE", 1e9)
    exact = expectations(LINKS[name], -2.0, 4.0, 0.0)
    found = quadrature.expected(FAST[name], one(-2.0), one(16.0), one(1.0), tilted=False)
    assert found.bend[0] != pytest.approx(exact.bend, rel=1e-4)
