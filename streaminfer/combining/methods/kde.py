"""The product of kernel density estimates (Neiswanger, Wang and Xing 2014).

The kernel of part j is N(0, h^2 S_j) with its own covariance S_j: nothing depends on the units of parameters, and a
product of Gaussian parts has the right mean and (1 + h^2) times the right covariance.

Few draws of a subposterior are where the posterior is, and estimates there are noisy, the more so in many dimensions:
with 2,000 draws each of 8 subposteriors of a logistic regression, the worst mean is 0.3 to 0.7 sd off at d = 5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.methods import indices, terms
from streaminfer.combining.methods.terms import Terms
from streaminfer.combining.part import Combined, Gaussian, Moments, Options, Part, none_missing
from streaminfer.combining.picking import at_most, wanted


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Draws of the product of the parts' kernel density estimates."""
    none_missing(options, "kde")
    found = moments.of_parts(parts)
    leaves = []
    for part, m in zip(parts, found, strict=True):
        centres = at_most(part, options.components, rng)
        leaves.append(Terms(centres, np.zeros(len(centres)), m.cov))
    return multiplied(leaves, options.bandwidth or bandwidth(leaves), wanted(parts, options.n), rng, options, found)


def multiplied(
    leaves: Sequence[Terms], h: float, n: int, rng: np.random.Generator, options: Options, found: tuple[Moments, ...]
) -> Combined:
    """The product of sums with bandwidth h, by exact pairs or by a chain of indices. `leaves` have that of 1."""
    size = max(n, options.components)
    if options.choice == "gibbs":
        course = (
            indices.annealed(h, options.sweeps, leaves[0].centres.shape[1])
            if options.bandwidth is None
            else np.full(options.sweeps, h)
        )
        product, share = indices.sample(leaves, course, size, rng)
        return terms.finished(product, n, rng, found, {"bandwidth": h, "acceptance": share})
    narrow = [leaf._replace(kernel=h**2 * leaf.kernel) for leaf in leaves]
    fits = [Gaussian(m.mean, m.cov) for m in found]
    product = terms.tree(narrow, lambda a, b, both: terms.exact_pairs(a, b, size, rng, guided=terms.guide(fits, both)))
    distinct = len(np.unique(product.centres[:, 0])) / len(product.centres)
    return terms.finished(product, n, rng, found, {"bandwidth": h, "distinct": distinct})


def bandwidth(leaves: Sequence[Terms]) -> float:
    """T^(-1/(4+d)): where the annealed bandwidth of Neiswanger et al. ends after as many steps as there are draws."""
    return float(min(len(leaf.centres) for leaf in leaves) ** (-1 / (4 + leaves[0].centres.shape[1])))
