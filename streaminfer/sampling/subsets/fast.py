"""Compiled loops of decisions on subsets where numba is installed (the extra `fast`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.sampling.gradients.minibatches import Indices
from streaminfer.sampling.subsets import shuffling
from streaminfer.sampling.subsets.proxy import BrokenBound, Proxy, broken

PoissonLoop = Callable[[Matrix, Vector, float, np.random.Generator, Matrix, Vector, Indices], BrokenBound | None]
"""(moves, levels, chi, rng, path, known, counts) as in `compiled.poisson_mh`."""


@cache
def loops() -> Any:
    """The module `compiled`, or None without numba."""
    try:
        from streaminfer.sampling.subsets import compiled
    except ImportError:
        return None
    return compiled


def swaps() -> Any:
    """What has `swapped` and `swapped_back`."""
    return loops() or shuffling


def poisson_mh(proxy: Proxy) -> PoissonLoop | None:
    """The loop on the events of a proxy; None unless it can be compiled for them."""
    density, target, expansion = proxy.density, proxy.density.target, proxy.expansion
    if not isinstance(target, Margins) or loops() is None:
        return None
    mean, precision = target.prior
    inverse = proxy.inverse if len(proxy.inverse) else np.ones((1, density.dimension))
    given = (
        np.ascontiguousarray(density.rows), target.link_code, expansion.order, expansion.anchor, expansion.gradient,
        expansion.second, np.ascontiguousarray(inverse), proxy.scales, proxy.cumulative, proxy.last, mean,
        density.share * precision,
    )  # fmt: skip

    def loop(
        moves: Matrix, levels: Vector, chi: float, rng: np.random.Generator, path: Matrix, known: Vector,
        counts: Indices,
    ) -> BrokenBound | None:  # fmt: skip
        fault = np.zeros(2)
        event = loops().poisson_mh(*given, moves, levels, chi, rng, path, known, counts, fault)
        return None if event < 0 else broken(int(event), float(fault[0]), float(fault[1]))

    return loop
