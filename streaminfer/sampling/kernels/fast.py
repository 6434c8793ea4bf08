"""Compiled loops where numba is installed (the extra `fast`)."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.sampling.gradients.estimates import Gradients


@cache
def loops() -> Any:
    """The module `compiled`, or None without numba."""
    try:
        from streaminfer.sampling.kernels import compiled
    except ImportError:
        return None
    return compiled


class Given(NamedTuple):
    """What every compiled loop needs of the gradients: rows and link, then what their sum is made of."""

    rows: Matrix
    link: int
    base: Vector
    slopes: Vector
    mean: Vector
    precision: Vector


def given(gradients: Gradients) -> Given | None:
    """None unless a compiled loop can compute these gradients."""
    density, target = gradients.density, gradients.density.target
    if not isinstance(target, Margins) or len(density.rows) != density.n or loops() is None:
        return None
    mean, precision = target.prior
    base, slopes = np.zeros(len(mean)), np.empty(0)
    if gradients.anchor is not None:
        base, slopes = gradients.anchor.gradient, gradients.anchor.slopes
    rows = np.ascontiguousarray(density.rows)  # of a mapped file a view, as numba knows no maps
    return Given(rows, target.link_code, base, slopes, mean, density.share * precision)
