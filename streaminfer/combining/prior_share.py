"""prior^(1/J), which stands for a subposterior without events."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.combining.part import Gaussian
from streaminfer.families import matrices


def gaussian_share(target: Any, subposteriors: int) -> Gaussian | None:
    """The share of one of J subposteriors, if the prior is a Gaussian on the unconstrained scale; else None.

    A prior whose second derivatives are the same everywhere is one. It is looked at in three places that have no
    symmetry.
    """
    if not (hasattr(target, "prior_curvature") and hasattr(target, "prior_gradient")):
        return None
    d = int(target.dimension)
    places = [np.zeros(d), np.linspace(-0.7, 1.1, d), np.cos(1.0 + np.arange(d))]
    curvatures = [np.asarray(target.prior_curvature(place), dtype=np.float64) for place in places]
    precision = curvatures[0]
    if not all(np.allclose(each, precision, rtol=1e-9, atol=0.0) for each in curvatures):
        return None
    try:
        factor = matrices.cholesky(precision)
    except np.linalg.LinAlgError:
        return None
    cov = matrices.inverse(factor)
    # the gradient at 0 of -(x - m)' P (x - m) / 2 is P m
    mean = cov @ np.asarray(target.prior_gradient(places[0][None]), dtype=np.float64)[0]
    return Gaussian(mean, subposteriors * cov)
