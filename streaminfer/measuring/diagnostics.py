"""Whether chains agree, and what their draws are worth: R-hat, effective draws and Monte-Carlo errors, by arviz-stats.

All are the rank-normalised split forms (Vehtari et al. 2021). A coordinate that does not move has NaN. While chains
run, `sampling.pooled.effective` counts their draws instead: without ranks, and of chains of different lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import pareto
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.model import Matrix, Vector

TAILS: Final = (0.05, 0.95)
"""Tail draws are worth what the worse of these quantiles has (arviz-stats has no default for arrays)."""
_LEAST: Final = 4


class Diagnostics(NamedTuple):
    """Of each coordinate, (c,)."""

    r_hat: Vector
    """Whether chains agree, 1 if they do; NaN of a single chain."""
    bulk: Vector
    """Effective draws for the middle of the distribution."""
    tail: Vector
    """Effective draws for its 5% and 95% quantiles."""
    mcse: Vector
    """Standard error of the mean, in the coordinate's units."""


def measure(chains: Sequence[Matrix] | NDArray[np.float64]) -> Diagnostics:
    """Of chains (m, n, c). Chains of different lengths count from their ends, as far as the shortest goes back."""
    from arviz_stats.base import array_stats

    draws = _together(chains)
    moves = np.ptp(draws, axis=(0, 1)) > 0
    held = np.ascontiguousarray(draws[:, :, moves].transpose(2, 0, 1))
    found = np.full((4, draws.shape[2]), np.nan)
    if held.size:
        with np.errstate(all="ignore"):
            found[0, moves] = array_stats.rhat(held)
            found[1, moves] = array_stats.ess(held, method="bulk")
            found[2, moves] = array_stats.ess(held, method="tail", prob=TAILS)
            found[3, moves] = array_stats.mcse(held, method="mean")
    return Diagnostics(*found)


def _together(chains: Sequence[Matrix] | NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = [len(chain) for chain in chains]
    least = min(lengths, default=0)
    if least < _LEAST:
        raise Unknowable(f"A chain has {least} draws, and {_LEAST} are needed.", "Wait for more draws.")
    draws = np.stack([np.asarray(chain[len(chain) - least :], dtype=np.float64) for chain in chains])
    if draws.ndim != 3:
        raise ValueError(f"chains have the shape {draws.shape}; it must be (chains, draws, coordinates)")
    if not np.isfinite(draws).all():
        raise Unknowable("Draws are not finite.")
    return draws


def k_hat(log_ratios: Vector) -> float:
    """Pareto's k of the posterior's log density (n,) less that of what was drawn from; infinite if nothing overlaps."""
    ratios = np.asarray(log_ratios, dtype=np.float64)
    if ratios.ndim != 1 or np.isnan(ratios).any() or not np.isfinite(ratios).any() or (ratios == np.inf).any():
        raise Unknowable("Log densities must be finite, or minus infinity at some draws.")
    if len(ratios) < 25:
        raise Unknowable(f"There are {len(ratios)} log densities, and 25 are needed.", "Wait for more draws.")
    return pareto.smoothed(ratios)[1]


def per_second(effective: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
    """Effective draws per second of wall clock, which all that made them took together."""
    if not seconds > 0:
        raise Unknowable(f"The draws took {seconds:g} s, which tells no rate.")
    return np.asarray(effective / seconds, dtype=np.float64)
