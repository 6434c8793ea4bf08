"""The normal approximation of Huang and Gelman (2005).

They divide the prior out of subposteriors that each have all of it. Ours have their share, so that the product of the
normal approximations is the answer as it stands: that of `gaussian` with sample covariances taken as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from streaminfer.combining.methods import gaussian
from streaminfer.combining.part import Combined, Options, Part


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """Draws of the product of normal approximations, without a correction for few draws."""
    return gaussian.combine(parts, rng, replace(options, is_corrected=False))
