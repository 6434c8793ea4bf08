"""What speaks against a combined posterior, in short sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.correction import Corrected
from streaminfer.combining.part import Combined, Gaussian, Moments
from streaminfer.families import special
from streaminfer.models.model import Vector

UNLIKELY: Final = 1e-3
"""Subposteriors disagree if chance, over all of them, would do so less often."""
APART: Final = 0.5
"""Posterior deviations between the mean of the chosen combiner and that of full weights."""
WIDER: Final = 1.25
"""How many times a deviation of the chosen combiner may be that of full weights, or the other way round."""
KERNEL_DIMENSIONS: Final = 3
FEW: Final = 100


def warnings(by: str, combined: Combined, corrected: Corrected | None = None, ambiguous: float = 0.0) -> list[str]:
    """Reasons to doubt a posterior that was combined `by` a method; none if there are none."""
    found = []
    d, parts = len(combined.mean), combined.parts
    chances = agreement(parts, combined.missing)
    worst = int(chances.argmin())
    if chances[worst] * len(parts) < UNLIKELY:
        found.append(f"subposteriors disagree: chance puts one as far off as {worst} in {chances[worst]:.1g} of cases")
    away = apart(combined)
    if away > APART:
        found.append(f"the mean is {away:.2g} deviations from that of full weights")
    wide = wider(combined)
    if max(wide, 1 / wide) > WIDER:
        found.append(f"deviations are up to {wide:.2g} times those of full weights")
    if by == "kde" and d > KERNEL_DIMENSIONS:
        found.append(f"kernel density estimates are poor in more than {KERNEL_DIMENSIONS} dimensions: here are {d}")
    if combined.notes.get("effective", np.inf) < FEW:
        found.append(f"the draws are worth {combined.notes['effective']:.0f} independent ones")
    if ambiguous > 0:
        found.append(f"the components of {ambiguous:.0%} of the subposteriors match in more than one way")
    if corrected is not None and not corrected.is_reliable:
        found.append(f"k-hat is {corrected.k_hat:.2f}, above {corrected.threshold:.2f}: the correction is not reliable")
    return found


def agreement(parts: Sequence[Moments], missing: Sequence[Gaussian] = ()) -> Vector:
    """How likely a subposterior's mean is at least as far as it is from the posterior's, for each part (J,).

    With the same truth behind all data, mu_j - mu has the covariance S_j - S, and S_j / T more as draws are few. The
    posterior has the prior shares of missing ones in it.
    """
    given = [*(Gaussian(m.mean, m.cov) for m in parts), *missing]
    whole = moments.product((each.mean, moments.inverse(each.cov)) for each in given)
    found = np.ones(len(parts))
    if len(parts) == 1:
        return found
    for j, m in enumerate(parts):
        spread = m.cov - whole.cov + m.cov / m.effective
        away = m.mean - whole.mean
        found[j] = special.gammaincc(len(away) / 2, float(away @ np.linalg.solve(spread, away)) / 2)
    return found


def apart(combined: Combined) -> float:
    """The largest distance over coordinates between the mean and that of full weights, in deviations of the latter."""
    whole = _full_weights(combined)
    return float(np.abs((combined.mean - whole.mean) / np.sqrt(np.diag(whole.cov))).max())


def wider(combined: Combined) -> float:
    """The deviation that differs most from that of full weights, as a multiple of that."""
    whole = _full_weights(combined)
    ratios = np.sqrt(np.diag(combined.cov) / np.diag(whole.cov))
    return float(ratios[np.abs(np.log(ratios)).argmax()])


def _full_weights(combined: Combined) -> Gaussian:
    """What full weights give of the same parts and prior shares."""
    parts = [(m.mean, moments.precision(m, is_corrected=True)) for m in combined.parts]
    return moments.product([*parts, *((share.mean, moments.inverse(share.cov)) for share in combined.missing)])
