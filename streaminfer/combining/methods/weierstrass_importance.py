"""Weierstrass importance sampling in pairs (Wang and Dunson 2013).

Two draws s and t of different subposteriors are a draw of the product of their smoothed densities with the weight
exp(-(s - t)^2 / (2 (h^2 + h^2))), up to the kernel around their average, which is left out at the end. Pairs of pairs
have kernels half as wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.methods import coordinates, terms
from streaminfer.combining.methods.terms import Terms
from streaminfer.combining.part import Combined, Options, Part, none_missing
from streaminfer.combining.picking import effective, normalised, systematic, wanted

_PROPOSED: Final = 8
"""Pairs for each that is kept."""


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Averages of draws that agree; `effective` is the least number that pairs were worth."""
    none_missing(options, "weierstrass_importance")
    found = moments.of_parts(parts)
    unit, n = coordinates.variances(found), wanted(parts, options.n)
    h = options.bandwidth or coordinates.bandwidth(coordinates.leaves(parts, unit, 1.0, options, rng), rng)
    size, worth = max(n, options.components), [np.inf]

    def join(a: Terms, b: Terms, _: range) -> Terms:
        centres, logs = coordinates.random_pairs(a, b, _PROPOSED * size, rng)
        weights = normalised(logs)
        worth.append(effective(weights))
        kept = centres[systematic(weights, size, rng)]
        return terms.frame(a, b)[0]._replace(centres=kept, log_weights=np.zeros(size))

    product = terms.tree(coordinates.leaves(parts, unit, h, options, rng), join)
    return coordinates.averages(product, n, rng, found, {"bandwidth": h, "effective": min(worth)})
