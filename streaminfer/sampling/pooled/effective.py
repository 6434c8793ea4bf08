"""How many independent draws the draws of chains are worth (Vehtari et al. 2021, without ranks).

Chains are split in halves, so that a chain that still moves away counts as two that disagree. Autocorrelations are
combined over the halves and summed by Geyer's initial monotone sequence. Halves may have different lengths: each counts
by its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector

LEAST: Final = 8
"""A chain with fewer draws says nothing of their correlation."""
_ROUNDED: Final = 1e-13
"""Numbers that differ by this part of themselves differ by rounding."""


def least(chains: Sequence[Matrix]) -> float:
    """The smallest number of effective draws over the coordinates of chains (n_c, p) that are not constant.

    0 if there are too few draws, or if nothing moves.
    """
    long = [chain for chain in chains if len(chain) >= LEAST]
    if not long:
        return 0.0
    low, high = (np.array([end(chain, axis=0) for chain in long]) for end in (np.min, np.max))
    lowest, width = low.min(axis=0), high.max(axis=0) - low.min(axis=0)
    moves = width > _ROUNDED * np.maximum(np.abs(low), np.abs(high)).max(axis=0)
    if not moves.any():
        return 0.0
    found = by_coordinate([(chain[:, moves] - lowest[moves]) / width[moves] for chain in long])
    return float(found.min())


def by_coordinate(chains: Sequence[Matrix]) -> Vector:
    """The number of effective draws of each coordinate (p,), none of which is constant: at most n log10 n."""
    halves = [half for chain in chains for half in (chain[: len(chain) // 2], chain[len(chain) - len(chain) // 2 :])]
    lengths = np.array([len(half) for half in halves], dtype=np.float64)
    shares = lengths / lengths.sum()
    means = np.array([half.mean(axis=0) for half in halves])
    longest = int(lengths.max())
    padded = 1 << (2 * longest - 1).bit_length()
    spectrum, within = np.zeros((padded // 2 + 1, means.shape[1])), np.zeros(means.shape[1])
    for half, mean, share in zip(halves, means, shares, strict=True):
        around = half - mean
        waves = np.fft.rfft(around, padded, axis=0)
        spectrum += share / len(half) * (waves.real**2 + waves.imag**2)
        within += share / (len(half) - 1) * np.einsum("ij,ij->j", around, around)
    covariances = np.fft.irfft(spectrum, padded, axis=0)[:longest]
    between = shares @ (means - shares @ means) ** 2 / (1 - shares @ shares)
    correlations = 1 - (within - covariances) / (covariances[0] + between)
    n = sum(len(chain) for chain in chains)
    return np.asarray(n / np.maximum(_time(correlations), 1 / np.log10(n)), dtype=np.float64)


def _time(correlations: Matrix) -> Vector:
    """The integrated autocorrelation time (p,) of correlations (lags, p).

    Sums of neighbours rho_2t + rho_2t+1 fall and stay above 0 (Geyer 1992). What is not above 0 any more is left out,
    but for the first number if it is positive, which helps where draws are anticorrelated.
    """
    even = correlations[: len(correlations) // 2 * 2 : 2]
    pairs = even + correlations[1::2]
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    total = np.where(positive, np.minimum.accumulate(pairs, axis=0), 0.0).sum(axis=0)
    ends = positive.sum(axis=0)
    after = np.take_along_axis(even, np.minimum(ends, len(even) - 1)[None], axis=0)[0]
    return np.asarray(2 * total - 1 + np.where(ends < len(even), np.maximum(after, 0.0), 0.0), dtype=np.float64)
