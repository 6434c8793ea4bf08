"""A quick picture of a posterior: the density of each of its first numbers, from draws."""

from __future__ import annotations

from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.http.report.figures import Figure, Line
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.sampling import flat

MOST: Final = 12
DRAWS: Final = 20_000
MOST_NUMBERS: Final = 20_000_000
"""Of all draws: a posterior with many numbers gets fewer draws."""
POINTS: Final = 120


def figures(found: PosteriorSnapshot, seed: int = 0) -> list[Figure]:
    """One for each of the first numbers; topics have too many to draw."""
    size = max(1, sum(each.mean.size for each in found.moments.values()))
    drawn = found.sample(np.random.default_rng(seed), max(100, min(DRAWS, MOST_NUMBERS // size)))
    shapes = {name: values.shape[1:] for name, values in drawn.items()}
    named = flat.names(shapes, found.spec.model.labels)
    return [
        _density(name, values) for name, values in islice(zip(named, flat.flatten(drawn, shapes).T, strict=True), MOST)
    ]


def _density(name: str, values: NDArray[np.float64]) -> Figure:
    """A Gaussian kernel estimate, with Silverman's width (Silverman 1986)."""
    low, high = np.quantile(values, [0.001, 0.999])
    spread = min(float(values.std()), float(np.subtract(*np.quantile(values, [0.75, 0.25]))) / 1.34) or 1e-12
    width = 0.9 * spread * len(values) ** -0.2
    at = np.linspace(low - 3 * width, high + 3 * width, POINTS)
    heights = np.exp(-0.5 * ((at[:, None] - values) / width) ** 2).mean(axis=1) / (width * np.sqrt(2 * np.pi))
    inside = (at >= np.quantile(values, 0.025)) & (at <= np.quantile(values, 0.975))
    zero = [0.0 if yes else None for yes in inside]
    top = [float(h) if yes else None for h, yes in zip(heights, inside, strict=True)]
    return Figure(
        name, at.tolist(), (Line("density", heights.tolist()),), (zero, top), x_label="the shaded part holds 95%"
    )
