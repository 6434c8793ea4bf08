"""The loop over documents, compiled by numba if that is installed (the extra `fast`).

A document's numbers stay in the first cache from turn to turn, which arrays of many documents do not.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from streaminfer.models.lda.documents import Documents, Numbers
from streaminfer.models.model import Flags, Matrix, Vector
from streaminfer.variational.lda.blocks import TINY, State


def ascend(shares: Matrix, documents: Documents, alpha: Vector, state: State, tolerance: float, most: int) -> None:
    """Goes through all documents with words, from state.gamma on, and leaves the result of each there."""
    loop: Any = kernel() or turns
    # For each kind of array, such as one that may only be read, numba would compile anew.
    given = [np.require(array, requirements=["C", "W"]) for array in (*documents, alpha)]
    loop(shares, *given, *state, float(tolerance), int(most), TINY)


@cache
def kernel() -> Any:
    """`turns` as machine code; None without numba. It takes seconds to make, and numba keeps it on disk if it can."""
    try:
        import numba
    except ImportError:
        return None
    # Sums may be taken in any order and nothing is ever NaN; infinity is there, so "ninf" is not.
    options: Any = {"fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"}, "nogil": True}
    try:
        return numba.njit(cache=True, **options)(turns)
    except RuntimeError:  # no place to keep it
        return numba.njit(**options)(turns)


def turns(
    shares: Matrix,
    starts: Numbers,
    words: Numbers,
    counts: Vector,
    alpha: Vector,
    gammas: Matrix,
    taken: Numbers,
    lost: Flags,
    tolerance: float,
    most: int,
    tiny: float,
) -> None:
    """gamma <- alpha + theta · sum over words of count share / (theta · share), until it hardly changes.

    Plain loops, as numba wants them; `taken` and `lost` are as of `State`.
    """
    k = shares.shape[1]
    theta, sums, lacks = np.empty(k), np.empty(k), np.empty(k)
    own = np.empty((np.diff(starts).max() if len(starts) > 1 else 0, k))
    for d in range(len(starts) - 1):
        begin, entries, gamma = starts[d], starts[d + 1] - starts[d], gammas[d]
        for i in range(entries):
            own[i] = shares[words[begin + i]]
        change = np.inf
        while entries > 0 and taken[d] < most and change >= tolerance * k and not lost[d]:
            for j in range(k):
                # psi(x) = psi(y) - 1/x - ... - 1/(x + 7) with y = x + 8, and psi(y) = log(y) - 1/(2 y) - series. The
                # eight quotients are, by pairs, (2 x + 7) (1/u + 1/(u + 6) + 1/(u + 10) + 1/(u + 12)): one division.
                x, y = min(gamma[j], 1e30), gamma[j] + 8.0  # all eight are nothing beside what is larger
                u = x * (x + 7.0)
                above = ((4.0 * u + 84.0) * u + 504.0) * u + 720.0
                below = (((u + 28.0) * u + 252.0) * u + 720.0) * u
                f = 1.0 / (y * y)
                series = f * (1 / 12 - f * (1 / 120 - f * (1 / 252 - f * (1 / 240 - f * (1 / 132 - f * 691 / 32760)))))
                lacks[j] = (2.0 * x + 7.0) * (above / below) + 0.5 * y * f + series
            least = lacks.min()
            for j in range(k):
                # theta = exp(psi(x)) = y exp(-lack), all times exp(least). Calls of exp would be one by one: here it is
                # the series of exp(z / 1024), which is then squared ten times.
                z = max(least - lacks[j], -700.0) / 1024.0
                e = 1 + z * (1 + z * (1 / 2 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z * (1 / 720 + z / 5040))))))
                for _ in range(10):
                    e *= e
                theta[j] = (gamma[j] + 8.0) * e
                sums[j] = 0.0
            for i in range(entries):
                total = 0.0
                for j in range(k):
                    total += theta[j] * own[i, j]
                if total < tiny:
                    lost[d], total = True, tiny
                ratio = counts[begin + i] / total
                for j in range(k):
                    sums[j] += ratio * own[i, j]
            change = 0.0
            for j in range(k):
                after = alpha[j] + theta[j] * sums[j]
                change += abs(after - gamma[j])
                gamma[j] = after
            taken[d] += 1
