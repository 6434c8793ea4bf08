"""The product of Gaussians fitted to the subposteriors (Neiswanger, Wang and Xing 2014)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.methods.average import precisions_of
from streaminfer.combining.part import Combined, Options, Part, Refused
from streaminfer.combining.picking import wanted


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Draws of N(mu, Sigma), Sigma = (sum_j S_j^-1)^-1, mu = Sigma sum_j S_j^-1 mu_j; by coordinate if `diagonal`."""
    if options.weights == "equal":
        raise Refused("a product of Gaussians has no equal weights: take full or diagonal ones, or the average")
    found = moments.of_parts(parts)
    means = [*(m.mean for m in found), *(each.mean for each in options.missing)]
    product = moments.product(zip(means, precisions_of(found, options), strict=True))
    draws = moments.draw(product, wanted(parts, options.n), rng)
    return Combined(draws, product.mean, product.cov, found, missing=tuple(options.missing))
