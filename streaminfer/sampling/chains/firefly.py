"""What flymc must know of all data before its first step: the sum of all bounds, and how many events are bright."""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts
from streaminfer.models.targets.density import Density
from streaminfer.sampling.kernels import flymc
from streaminfer.sampling.kernels.flymc import Bound, Collapsed
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import BoundRule

PLACES: Final = 4
"""Draws of the Laplace approximation at which bright events are counted."""
OFFERS: Final = 2.5
"""Dark events that are offered their light, for each bright one: then nearly all that would be bright are."""
LARGEST, FEWEST = 0.1, 10
"""The largest fraction that is chosen, and the fewest events that it stands for."""


def n_numbers(d: int) -> int:
    """How many numbers say all of it."""
    return 2 + d + d * d


def measured(density: Density, rule: BoundRule, mode: Vector, root: Matrix, key: Key) -> tuple[Vector, int]:
    """The fraction and the sum of all bounds as numbers, and how many likelihoods of single events they took."""
    bounds = flymc.bound(density, _tangents(density, rule, mode))
    fraction, n_read = rule.fraction, density.n
    if fraction is None:
        fraction, n_counted = _suited(density, bounds, mode, root, key)
        n_read += n_counted
    collapsed = bounds.collapsed
    return np.concatenate([[fraction, collapsed.constant], collapsed.linear, collapsed.second.ravel()]), n_read


def restored(density: Density, rule: BoundRule, mode: Vector, numbers: Vector) -> Bound:
    """The bounds of all events. Their sum is not made again: it must be the same to the last digit."""
    d = density.dimension
    each = density.target.lower_bound(_tangents(density, rule, mode))
    return Bound(each, Collapsed(numbers[2 + d :].reshape(d, d).copy(), numbers[2 : 2 + d].copy(), float(numbers[1])))


def _tangents(density: Density, rule: BoundRule, mode: Vector) -> Vector:
    return flymc.tangents(density, mode) if rule.tune == "mode" else np.full(density.n, rule.at)


def _suited(density: Density, bounds: Bound, mode: Vector, root: Matrix, key: Key) -> tuple[float, int]:
    """A fraction in proportion to the bright events: their number hardly grows with N if bounds touch at the mode."""
    if not density.n or not len(mode):
        return LARGEST, 0
    rng = key.of("brightness").generator(0)
    total = 0.0
    for _ in range(PLACES):
        theta = mode + (root @ rng.standard_normal(len(mode)) if len(root) else 0.0)
        for part in parts.slices(density.rows):
            indices = np.arange(part.start, min(part.stop, density.n))
            total -= float(np.expm1(-flymc.lit(density, bounds, indices, theta).gaps).sum())
    share = total / PLACES / density.n
    return float(min(LARGEST, max(OFFERS * share, min(1.0, FEWEST / density.n)))), PLACES * density.n
