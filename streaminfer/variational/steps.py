"""The sizes of the steps of svi (Robbins & Monro 1951)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

TAU: Final = 64.0
KAPPA: Final = 0.7
BLOCK: Final = 4096
NOTHING: Final = -100.0
"""The log of what is nothing."""


@dataclass(frozen=True, slots=True)
class StepSize:
    """The size of step t = 1, 2, ...: `constant`, else (tau + t)^-kappa."""

    tau: float | None = None
    kappa: float | None = None
    constant: float | None = None

    def at(self, t: int) -> float:
        if self.constant is not None:
            return self.constant
        return float(((TAU if self.tau is None else self.tau) + t) ** -(self.kappa or KAPPA))

    def left(self, n: int) -> float:
        """The share of their start that n steps leave: (1 - rho_1) ... (1 - rho_n)."""
        if self.constant is not None:
            return (1 - self.constant) ** n
        total, (blocks, rest) = 0.0, divmod(n, BLOCK)
        for i in range(blocks):
            total += _block(self, i)
            if total < NOTHING:
                return 0.0
        return math.exp(total + (float(_logs(self, blocks)[rest - 1]) if rest else 0.0))


@cache
def _block(step: StepSize, block: int) -> float:
    """The sum of log(1 - rho) over a block of steps."""
    return float(_logs(step, block)[-1])


@lru_cache(maxsize=8)
def _logs(step: StepSize, block: int) -> NDArray[np.float64]:
    """The same over its first, its first two and so on; the size of a first step may be 1."""
    sizes = np.array([step.at(t) for t in range(BLOCK * block + 1, BLOCK * (block + 1) + 1)])
    return np.asarray(np.cumsum(np.log1p(-np.minimum(sizes, 1 - 2.0**-53))), dtype=np.float64)
