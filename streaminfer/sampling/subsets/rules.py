"""When a part of the events is enough to decide: stopping rules of approximate Metropolis–Hastings.

Of m of N values, drawn without replacement, the mean and the deviation s are known, and maybe that no value is larger
than C in size. `t` is the test of Korattikara, Chen & Welling (2014), which takes the mean to be normal. The others are
concentration bounds: the mean is within c of that of all values but for a chance of delta (Bardenet, Doucet & Holmes
2014). After k batches delta is (p - 1) error / (p k^p), p = 2, and these sum to less than `error`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from streaminfer.families.special import student_tail

POWER: Final[float] = 2.0
_ROUNDING: Final = 1e-12
"""A deviation of this part of the mean is that of rounding: such values do not vary."""
KAPPA: Final = 7 / 3 + 3 / math.sqrt(2)
"""Of the empirical Bernstein–Serfling bound (Bardenet & Maillard 2015, theorem 4.3)."""


class Seen(NamedTuple):
    """What is known of m of n values after k batches."""

    m: int
    n: int
    mean: float
    deviation: float
    """With m - 1 in its denominator."""
    k: int = 1


def delta(error: float, k: int) -> float:
    """The chance of a mistake that the k-th look may have."""
    return (POWER - 1) / (POWER * math.pow(k, POWER)) * error


def hoeffding(seen: Seen, most: float, chance: float) -> float:
    """C sqrt(2 (1 - (m - 1) / N) log(2 / delta) / m), without replacement (Serfling 1974); the range 2 C is inside."""
    return most * math.sqrt(2 / seen.m * (1 - (seen.m - 1) / seen.n) * math.log(2 / chance))


def bernstein(seen: Seen, most: float, chance: float) -> float:
    """s sqrt(2 log(3 / delta) / m) + 6 C log(3 / delta) / m (Audibert, Munos & Szepesvari 2009)."""
    log = math.log(3 / chance)
    return seen.deviation * math.sqrt(2 * log / seen.m) + 6 * most * log / seen.m


def bernstein_serfling(seen: Seen, most: float, chance: float) -> float:
    """s sqrt(2 rho log(5 / delta) / m) + kappa 2 C log(5 / delta) / m (Bardenet & Maillard 2015)."""
    log = math.log(5 / chance)
    return seen.deviation * math.sqrt(2 * left_over(seen) * log / seen.m) + KAPPA * 2 * most * log / seen.m


def left_over(seen: Seen) -> float:
    """rho: how much less a mean varies as values are not replaced. It has another form once half of them are seen."""
    if 2 * seen.m <= seen.n:
        return 1 - (seen.m - 1) / seen.n
    return (1 - seen.m / seen.n) * (1 + 1 / seen.m)


Bound = Callable[[Seen, float, float], float]
BOUNDS: Final[Mapping[str, Bound]] = {
    "hoeffding": hoeffding,
    "bernstein": bernstein,
    "bernstein_serfling": bernstein_serfling,
}
"""Rules that need C, by name."""
RULES: Final = ("t", *BOUNDS)


def student(seen: Seen, threshold: float) -> float:
    """The chance that all values decide otherwise, as if means were normal; 1 if they have not varied so far."""
    if seen.m < 2 or seen.deviation <= _ROUNDING * abs(seen.mean):
        return 1.0
    error = seen.deviation * math.sqrt((seen.n - seen.m) / (seen.m * max(seen.n - 1, 1)))
    return student_tail(abs(seen.mean - threshold) / error, seen.m - 1)


def is_enough(rule: str, error: float, seen: Seen, threshold: float, most: float | None) -> bool:
    """Whether the mean of all values is on the same side of a threshold as that of the values seen, by a rule."""
    if rule == "t":
        return student(seen, threshold) < error
    if most is None:
        raise ValueError(f"the rule {rule} needs a bound of the values, and there is none")
    chance = delta(error, seen.k)
    return chance > 0 and abs(seen.mean - threshold) > BOUNDS[rule](seen, most, chance)
