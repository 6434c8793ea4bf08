"""Products of Gaussian fits, each corrected by kernels (Neiswanger, Wang and Xing 2014, section 3.3).

f_j(theta) = N(theta | mu_j, S_j) mean_t N(theta | theta_jt, h^2 S_j) / N(theta_jt | mu_j, S_j): the Gaussian as it is
for a wide kernel, the kernel density estimate for a narrow one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.methods import kde
from streaminfer.combining.methods.kde import multiplied
from streaminfer.combining.methods.terms import Terms
from streaminfer.combining.part import Combined, Gaussian, Options, Part, none_missing
from streaminfer.combining.picking import at_most, wanted

_WIDEST: Final = 0.8


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Draws of the product of the parts' semiparametric density estimates."""
    none_missing(options, "semiparametric")
    found = moments.of_parts(parts)
    leaves = []
    for part, m in zip(parts, found, strict=True):
        fit, centres = Gaussian(m.mean, m.cov), at_most(part, options.components, rng)
        leaves.append(Terms(centres, -moments.log_density(centres, fit), m.cov, fit))
    return multiplied(leaves, options.bandwidth or bandwidth(leaves), wanted(parts, options.n), rng, options, found)


def bandwidth(leaves: Sequence[Terms]) -> float:
    """Twice that of `kde`, as only what is not Gaussian is smoothed, but at most 0.8.

    For Gaussian parts whose means are as far apart as chance puts them, the mass of each term is the least noisy at
    h^2 = 2 - sqrt(2). Above h^2 = 2 its variance is infinite: terms far out, where the Gaussian is small, count most.
    """
    return min(_WIDEST, 2 * kde.bandwidth(leaves))
