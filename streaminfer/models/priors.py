"""What the prior sections of all models share: bounds of their numbers, and one value spread over coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.options import Number, OptionsError, Problem, Section

_LARGEST: Final = 1e50
_SMALLEST: Final = 1e-50

REAL: Final = Number(minimum=-_LARGEST, maximum=_LARGEST)
"""A location. Within these bounds no product of prior numbers and statistics leaves float64."""

POSITIVE: Final = Number(minimum=_SMALLEST, maximum=_LARGEST)
"""A precision, rate, scale, shape or pseudo-count."""


def spread(value: float | tuple[float, ...], size: int, field: str, of: str) -> tuple[float, ...]:
    """One number for each of `size` coordinates; raises OptionsError if a list has another length."""
    if not isinstance(value, tuple):
        return (value,) * size
    if len(value) != size:
        raise OptionsError(field, f"must be one number, or a list of {size}: one for each {of}", value)
    return value


def checked(options: Section, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A prior section of the options of a model: what is given and, for what is not, its own; raises OptionsError."""
    section = options.options[-1].rule
    problems: list[Problem] = []
    prior: dict[str, Any] = section.check(
        {**own, **{key: value for key, value in given.items() if value is not None}}, "prior", problems
    )
    if problems:
        raise OptionsError(*problems[0])
    return prior


def reals(values: NDArray[np.float64]) -> list[float]:
    """The nearest numbers that are REAL."""
    clipped: list[float] = np.clip(values, -_LARGEST, _LARGEST).tolist()
    return clipped


def positives(values: NDArray[np.float64]) -> list[float]:
    """The nearest numbers that are POSITIVE."""
    clipped: list[float] = np.clip(values, _SMALLEST, _LARGEST).tolist()
    return clipped
