"""Stopping rules: their formulas by pinned values, and their promises by exact hypergeometric tails."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from streaminfer.sampling.subsets import rules
from streaminfer.sampling.subsets.rules import Seen

PINNED: list[tuple[str, Seen, float, float, float]] = [
    ("hoeffding", Seen(10, 100, 0.0, 0.5), 1.0, 0.05, 0.8193754088625899),
    ("hoeffding", Seen(60, 100, 0.0, 0.5), 2.0, 0.01, 0.5381833789437320),
    ("hoeffding", Seen(1000, 100_000, 0.0, 0.5), 0.3, 0.005, 0.03267552244311982),
    ("bernstein", Seen(10, 100, 0.0, 0.5), 1.0, 0.05, 2.909063617169455),
    ("bernstein", Seen(60, 100, 0.0, 0.2), 2.0, 0.01, 1.227963394311631),
    ("bernstein", Seen(1000, 100_000, 0.0, 0.01), 0.3, 0.005, 0.01264557281402920),
    ("bernstein_serfling", Seen(10, 100, 0.0, 0.5), 1.0, 0.05, 4.560637858011074),
    ("bernstein_serfling", Seen(60, 100, 0.0, 0.2), 2.0, 0.01, 1.903644226262413),
    ("bernstein_serfling", Seen(1000, 100_000, 0.0, 0.01), 0.3, 0.005, 0.01963250264200666),
]


def by_hand(rule: str, seen: Seen, most: float, chance: float) -> float:
    """The formulas once more, with the range b - a = 2 C where the papers have it."""
    m, n, s, span = seen.m, seen.n, seen.deviation, 2 * most
    if rule == "hoeffding":
        return span * math.sqrt((1 - (m - 1) / n) * math.log(2 / chance) / (2 * m))
    if rule == "bernstein":
        return s * math.sqrt(2 * math.log(3 / chance) / m) + 3 * span * math.log(3 / chance) / m
    rho = 1 - (m - 1) / n if m <= n / 2 else (1 - m / n) * (1 + 1 / m)
    log = math.log(5 / chance)
    return s * math.sqrt(2 * rho * log / m) + (7 / 3 + 3 / math.sqrt(2)) * span * log / m


@pytest.mark.parametrize(("rule", "seen", "most", "chance", "expected"), PINNED)
def test_pinned_values(rule: str, seen: Seen, most: float, chance: float, expected: float) -> None:
    assert rules.BOUNDS[rule](seen, most, chance) == pytest.approx(expected, rel=1e-11)
    assert by_hand(rule, seen, most, chance) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    ("m", "n", "gap", "expected"),
    [(10, 100, 0.2, 0.1086495), (50, 1000, 0.1, 0.0766833), (90, 100, 0.05, 0.0018307)],
)
def test_student(m: int, n: int, gap: float, expected: float) -> None:
    """With the finite-population correction; the tail is not 1 - cdf, which would be 0 far out."""
    seen = Seen(m, n, 0.3 + gap, 0.5)
    error = 0.5 / math.sqrt(m) * math.sqrt((n - m) / (n - 1))
    assert rules.student(seen, 0.3) == pytest.approx(stats.t.sf(gap / error, m - 1), rel=1e-9)
    assert rules.student(seen, 0.3) == pytest.approx(expected, abs=1e-7)
    assert rules.student(Seen(500, 10**6, 0.3, 0.5), 0.0) > 0


def test_values_that_do_not_vary_decide_nothing() -> None:
    assert rules.student(Seen(10, 100, 1.0, 0.0), 0.0) == 1.0
    assert rules.student(Seen(1, 100, 1.0, 0.0), 0.0) == 1.0
    assert not rules.is_enough("t", 0.5, Seen(10, 100, 1.0, 0.0), 0.0, None)


def test_nothing_is_enough_without_room_for_error() -> None:
    for rule in rules.RULES:
        assert not rules.is_enough(rule, 0.0, Seen(99, 100, 5.0, 1e-9), 0.0, 1.0)
    with pytest.raises(ValueError, match=r"the rule hoeffding needs a bound of the values, and there is none"):
        rules.is_enough("hoeffding", 0.1, Seen(9, 100, 5.0, 0.1), 0.0, None)


def test_the_chances_of_all_looks_sum_to_less_than_the_error() -> None:
    total = sum(rules.delta(0.01, k) for k in range(1, 100_000))
    assert 0.8 * 0.01 < total < 0.01


def tail(rule: str, m: int, n: int, ones: int, chance: float, scale: float) -> float:
    """The exact probability that the mean of m of n values of ±1 is farther from all than `scale` times the bound."""
    k = np.arange(max(0, m - (n - ones)), min(m, ones) + 1)
    means, true = 2 * k / m - 1, 2 * ones / n - 1
    deviations = np.sqrt(np.maximum(0.0, 1 - means**2) * m / max(m - 1, 1))
    bounds = [rules.BOUNDS[rule](Seen(m, n, x, s), 1.0, chance) for x, s in zip(means, deviations, strict=True)]
    beyond = np.abs(means - true) > scale * np.array(bounds)
    if rule == "bernstein_serfling":  # its promise is of one side
        beyond &= means > true
    return float(stats.hypergeom.pmf(k, n, ones, m)[beyond].sum())


CASES = [
    (m, n, ones)
    for n in (100, 1000)
    for m in (n // 20, n // 5, n // 2, 3 * n // 4, n - 2)
    for ones in (n // 2, n // 20)
]


@pytest.mark.parametrize("rule", rules.BOUNDS)
@pytest.mark.parametrize("chance", [0.1, 0.001])
def test_bounds_hold(rule: str, chance: float) -> None:
    assert all(tail(rule, m, n, ones, chance, 1.0) <= chance for m, n, ones in CASES)


@pytest.mark.parametrize(("rule", "scale"), [("hoeffding", 0.5), ("bernstein", 0.25), ("bernstein_serfling", 0.25)])
def test_tighter_bounds_do_not(rule: str, scale: float) -> None:
    """Mutants: the range taken as C / 2, or a bound four times too tight."""
    assert any(tail(rule, m, n, ones, 0.1, scale) > 0.1 for m, n, ones in CASES)


def first_form_only(seen: Seen) -> float:
    return 1 - (seen.m - 1) / seen.n


@pytest.mark.parametrize("form", [rules.left_over, first_form_only])
def test_the_factor_of_serfling_changes_its_form_past_half(form: Callable[[Seen], float]) -> None:
    """At m = N nothing is left over; the first form leaves 1 / N."""
    assert (form(Seen(100, 100, 0.0, 1.0)) == 0) == (form is rules.left_over)
    assert form(Seen(50, 100, 0.0, 1.0)) == pytest.approx(0.51)
