"""`streaminfer.combine`: subposterior draws of any package become one posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaminfer.combining import advice
from streaminfer.combining.correction import Corrected, propose, weigh
from streaminfer.combining.part import Combined, Densities, Options, Part, Refused
from streaminfer.combining.picking import effective as worth
from streaminfer.combining.table import combiner
from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.pooled import effective


@dataclass(frozen=True, slots=True, eq=False)
class Combination:
    """Draws (n, d), mean (d,) and covariance (d, d), corrected if that is reliable; and what was done to get them.

    `exactness` is `sampled` after a reliable correction, else `approximate`. `warnings` say what speaks against it.
    """

    draws: Matrix
    mean: Vector
    cov: Matrix
    exactness: str
    warnings: tuple[str, ...]
    combined: Combined
    corrected: Corrected | None

    @property
    def sd(self) -> Vector:
        return np.asarray(np.sqrt(np.diag(self.cov)), dtype=np.float64)


def combine(
    draws: Sequence[ArrayLike],
    by: str = "average",
    *,
    log_density: Densities | None = None,
    weights_of_draws: Sequence[ArrayLike | None] | None = None,
    effective_draws: Sequence[float] | None = None,
    n: int = 1000,
    seed: int = 0,
    **options: Any,
) -> Combination:
    """Combines draws (T_j, d) of J subposteriors, each of prior^(1/J) times the likelihood of its data.

    Parameters are on an unconstrained scale, on which the prior was tempered. With `log_density`, the posterior's at
    parameters (n, d), up to a constant, the result is corrected by importance weights. `options` are those of
    `streaminfer.combining.part.Options`.
    """
    given = weights_of_draws or [None] * len(draws)
    known: Sequence[float | None] = effective_draws or [None] * len(draws)
    parts = [made(x, w, t) for x, w, t in zip(draws, given, known, strict=True)]
    rng = np.random.default_rng(seed)
    combined = combiner(by)(parts, rng, Options(n=n, **options))
    corrected = None
    if log_density is not None:
        proposals = propose(combined, rng)
        corrected = weigh(proposals, log_density(proposals.values), rng, n)
    best = corrected if corrected is not None and corrected.is_reliable else combined
    exactness = "sampled" if best is corrected else "approximate"
    said = tuple(advice.warnings(by, combined, corrected))
    return Combination(best.draws, best.mean, best.cov, exactness, said, combined, corrected)


def made(values: ArrayLike, weights: ArrayLike | None = None, effective_draws: float | None = None) -> Part:
    """A part of draws in the order of one chain: what they are worth is estimated if it is not given."""
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2:
        raise Refused(f"draws have the shape {rows.shape}, not (draws, numbers)")
    by = None if weights is None else np.asarray(weights, dtype=np.float64)
    if effective_draws is None:
        effective_draws = effective.least([rows]) if np.isfinite(rows).all() else float(len(rows))
        if by is not None and by.shape == (len(rows),) and (by > 0).any():
            effective_draws *= worth(by) / len(rows)
    return Part(rows, by, float(effective_draws))
