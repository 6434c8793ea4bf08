"""Pareto smoothed importance weights, and k-hat, which says whether they can be trusted (Vehtari et al. 2024)."""

from __future__ import annotations

import numpy as np

from streaminfer.combining.picking import normalised
from streaminfer.models.model import Vector


def threshold(n: int) -> float:
    """The largest k-hat at which n draws are enough: min(0.7, 1 - 1 / log10 n)."""
    return float(min(0.7, 1 - 1 / np.log10(n)))


def smoothed(ratios: Vector) -> tuple[Vector, float]:
    """Weights that sum to 1 and k-hat, of log density ratios (n,), of which some may be minus infinity.

    k-hat is 0 if the largest ratios are all the same, and there is no tail; infinite if there is nothing to fit.
    """
    from arviz_stats.base import array_stats

    finite = np.isfinite(ratios)
    low, high = ratios[finite].min(), ratios.max()
    if np.quantile(ratios, 0.8, method="lower") > high - 1e-9:
        return normalised(ratios), 0.0
    # psislw takes minus the log ratios; what has no mass stays far below all others
    logs, k_hat = array_stats.psislw(-np.where(finite, ratios, low - 700.0))
    weights = normalised(np.where(finite, np.asarray(logs, dtype=np.float64), -np.inf))
    return weights, float(k_hat) if np.isfinite(k_hat) else np.inf
