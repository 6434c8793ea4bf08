"""What a spec may say and its author may not want: warnings, not errors."""

from __future__ import annotations

from typing import Final

from streaminfer.models.binary.gaussian_weights import DiagonalWeights, FullWeights
from streaminfer.models.binary.regression import BinaryRegression
from streaminfer.spec.spec import Spec

AFFORDABLE: Final = 200
"""Weights up to which a full covariance costs little: 40,200 statistics, a third of a megabyte."""


def warnings_of(spec: Spec) -> list[str]:
    """Warnings to the user, a line each with field, reason and remedy; none if there is nothing to say."""
    model = spec.model
    if spec.sampling is not None or not isinstance(model, BinaryRegression) or model.covariance != "diagonal":
        return []
    d = len(model.weights_mean)
    if d > AFFORDABLE:
        return []
    return [
        f"model.covariance: diagonal is surer than it may be if features go together, and {d} weights can afford full "
        f"({FullWeights.size(d):,} statistics, not {DiagonalWeights.size(d):,}): leave it out; it is for more than "
        f"{AFFORDABLE} weights"
    ]
