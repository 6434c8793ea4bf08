"""Compiled loops where numba is installed (the extra `fast`)."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
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
    """What every compiled loop needs of the gradients: rows and link, then what is around their sum (see `Around`)."""

    rows: Matrix
    link: int
    base: Vector
    slopes: Vector
    mean: Vector
    precision: Vector


def given(gradients: Gradients) -> Given | None:
    """None unless a compiled loop can compute these gradients."""
    density, around = gradients.density, gradients.around
    if around is None or len(density.rows) != density.n or loops() is None:
        return None
    rows = np.ascontiguousarray(density.rows)  # of a mapped file a view, as numba knows no maps
    return Given(rows, density.target.link_code, *around)
