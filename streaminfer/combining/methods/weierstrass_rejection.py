"""Weierstrass rejection sampling in pairs (Wang and Dunson 2013): pairs of draws are kept if they agree.

A pair is kept with the probability exp(-(s - t)^2 / (2 (h^2 + h^2))); what is kept are independent draws.
The kernel around their average is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.methods import coordinates, terms
from streaminfer.combining.methods.terms import Terms
from streaminfer.combining.part import Combined, Options, Part, Refused, none_missing
from streaminfer.combining.picking import wanted

_MOST: Final = 200
"""Pairs that are tried for each that is wanted, at most."""
_WIDER: Final = 1.25


class _TooFew(Exception):
    """So few pairs agree that the wanted number would take too long."""


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Averages of draws that agree; a bandwidth that was not given is widened until pairs agree."""
    none_missing(options, "weierstrass_rejection")
    found = moments.of_parts(parts)
    unit, n = coordinates.variances(found), wanted(parts, options.n)
    h = options.bandwidth or coordinates.bandwidth(coordinates.leaves(parts, unit, 1.0, options, rng), rng)
    accepted: list[float] = []

    def join(a: Terms, b: Terms, _: range) -> Terms:
        return _join(a, b, max(n, options.components), accepted, rng)

    while True:
        accepted.clear()
        try:
            product = terms.tree(coordinates.leaves(parts, unit, h, options, rng), join)
        except _TooFew:
            if options.bandwidth is not None:
                raise Refused(
                    f"fewer than 1 of {_MOST} pairs of draws agree with bandwidth {h:.3g}: give a wider one, or null"
                ) from None
            h *= _WIDER
        else:
            return coordinates.averages(
                product, n, rng, found, {"bandwidth": h, "acceptance": min(accepted, default=1.0)}
            )


def _join(a: Terms, b: Terms, size: int, accepted: list[float], rng: np.random.Generator) -> Terms:
    """`size` pairs that agree."""
    kept: list[np.ndarray] = []
    n_kept = n_tried = 0
    while n_kept < size:
        if n_tried >= size and n_kept * _MOST < n_tried:
            raise _TooFew
        centres, logs = coordinates.random_pairs(a, b, 4 * size, rng)
        kept.append(centres[np.log(rng.random(len(logs))) < logs])
        n_kept, n_tried = n_kept + len(kept[-1]), n_tried + len(logs)
    accepted.append(n_kept / n_tried)
    return terms.frame(a, b)[0]._replace(centres=np.concatenate(kept)[:size], log_weights=np.zeros(size))
