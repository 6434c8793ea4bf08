"""The average of constant steps for what few steps touch, such as the rows of words.

`blend` publishes A_t = (1 - c_t) A_(t-1) + c_t S_t with c_t = 4 / (t + 3). With P_t = t (t + 1) (t + 2) (t + 3) that is
P_t A_t = the sum over steps j up to t of 4 j (j + 1) (j + 2) S_j. A row that was last touched at step s only decays
since, S_j = q^(j - s) S_s with q = 1 - rho. So it adds S_s times a sum that depends on s alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.models.model import Vector

GONE: Final = 60.0
"""What has decayed by exp(-GONE) is nothing: sums end there."""


def weight(now: int, rho: float) -> float:
    """The sum of the weights that minibatches have in the average at step `now`: 1 less what is left of the start."""
    return 1 - float(weights(np.zeros(1), now, rho)[1][0]) if rho < 1 else 1.0


def weights(then: Vector, now: int, rho: float) -> tuple[Vector, Vector]:
    """How often A and S of rows that steps `then` touched last count in their averages at step `now`."""
    steps = now - then
    window = int(min(steps.max(initial=0.0), np.ceil(GONE / -np.log1p(-rho))))
    # Within the window from the newest step back, times what has decayed since: all terms are positive.
    back = np.arange(window, dtype=np.float64)
    j = now - back
    sums = np.concatenate([[0.0], np.cumsum(4 * j * (j + 1) * (j + 2) * (1 - rho) ** -back)])
    near = steps <= window
    added = np.empty(len(then))
    added[near] = (1 - rho) ** steps[near] * sums[steps[near].astype(np.intp)]
    added[~near] = _endless(then[~near], rho)
    total = _product(np.asarray(float(now)))
    return _product(then) / total, added / total


def _product(t: Vector) -> Vector:
    """P_t."""
    return np.asarray(t * (t + 1) * (t + 2) * (t + 3), dtype=np.float64)


def _endless(then: Vector, rho: float) -> Vector:
    """The sum over m >= 1 of 4 (s + m) (s + m + 1) (s + m + 2) q^m, which is 24 C(s + m + 2, 3) q^m.

    By Vandermonde the sum over m >= 0 of C(a + m, 3) q^m is that over i = 0 ... 3 of C(a, 3 - i) q^i / rho^(i + 1).
    """
    a, q = then + 3, 1 - rho
    chosen = (a * (a - 1) * (a - 2) / 6, a * (a - 1) / 2, a, np.ones_like(a))
    return np.asarray(24 * q * sum(c * q**i / rho ** (i + 1) for i, c in enumerate(chosen)), dtype=np.float64)
