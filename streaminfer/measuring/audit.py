"""A posterior beside a long exact chain on the same target: what its intervals really hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from streaminfer.families.special import ndtr
from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.pooled import effective

LIMIT: Final = 1.959963984540054


class Published(NamedTuple):
    """Mean and sd of each of c numbers, (c,), as a snapshot has them; `n_draws` if they are of independent draws."""

    mean: Vector
    sd: Vector
    n_draws: float = math.inf


class Compared(NamedTuple):
    """Of each number (c,): (true mean - published mean) / published sd, true sd / published sd, standard errors."""

    shift: Vector
    shift_se: Vector
    ratio: Vector
    ratio_se: Vector
    coverage: Vector
    """What a published 95% interval really holds."""
    coverage_se: Vector


def compared(published: Published, chains: Sequence[Matrix]) -> Compared:
    """With chains (n, c) of a long exact run. Raises ValueError if a chain is too short, or a number does not vary.

    A mean of E effective draws has the error sd / sqrt(E). The error of a deviation is by the effective draws of
    squares around the mean and their own spread, so that heavy tails count.
    """
    if not chains or min(map(len, chains)) < effective.LEAST:
        raise ValueError(f"every chain needs at least {effective.LEAST} draws to be compared with")
    every = np.concatenate(chains)
    mean, sd = every.mean(axis=0), every.std(axis=0, ddof=1)
    if not ((sd > 0) & (published.sd > 0)).all():
        raise ValueError("a number does not vary, so nothing is told in its deviations")
    squares = [np.square(chain - mean) for chain in chains]
    mean_se = sd / np.sqrt(effective.by_coordinate(chains))
    spread = np.concatenate(squares).std(axis=0, ddof=1) / np.sqrt(effective.by_coordinate(squares))
    own = 1 / published.n_draws
    shift, ratio = (mean - published.mean) / published.sd, sd / published.sd
    shift_se = np.sqrt((mean_se / published.sd) ** 2 + own)
    ratio_se = np.sqrt((spread / (2 * sd * published.sd)) ** 2 + 0.5 * own * ratio**2)
    return Compared(shift, shift_se, ratio, ratio_se, *_coverage(shift, shift_se, ratio, ratio_se))


def _coverage(shift: Vector, shift_se: Vector, ratio: Vector, ratio_se: Vector) -> tuple[Vector, Vector]:
    """Of Gaussians, with its error by the derivatives."""
    high, low = (LIMIT - shift) / ratio, (-LIMIT - shift) / ratio
    at_high, at_low = (np.exp(-0.5 * end * end) / math.sqrt(2 * math.pi) for end in (high, low))
    by_shift, by_ratio = (at_low - at_high) / ratio, (low * at_low - high * at_high) / ratio
    error = np.hypot(by_shift * shift_se, by_ratio * ratio_se)
    return np.asarray(ndtr(high) - ndtr(low), dtype=np.float64), np.asarray(error, dtype=np.float64)
