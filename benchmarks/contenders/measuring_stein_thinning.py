"""The same by the package stein_thinning: its sums over pairs, draw by draw, and its choice of draws."""

from __future__ import annotations

from collections.abc import Callable

from stein_thinning.stein import ksd
from stein_thinning.thinning import _make_stein_integrand, thin

from benchmarks.measuring_task import Work, received, tell, timed

CHOSEN = 100


def by_kernel(work: Work) -> Callable[[int], float]:
    x = work.draws()

    def measure(n: int) -> float:
        return float(ksd(_make_stein_integrand(x[:n], -x[:n], standardize=False), n)[-1] ** 2)

    return measure


def by_thinning(work: Work) -> Callable[[int], float]:
    x = work.draws()
    return lambda n: float(thin(x[:n], -x[:n], CHOSEN, standardize=False).astype(float).sum())


if __name__ == "__main__":
    work = received()
    tell(timed({"kernel": by_kernel, "thinning": by_thinning}[work.measure](work), work.n))
