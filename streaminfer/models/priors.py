"""What the prior sections of all models share: bounds of their numbers, and one value spread over coordinates."""

from __future__ import annotations

from typing import Final

from streaminfer.models.options import Number, OptionsError

REAL: Final = Number(minimum=-1e50, maximum=1e50)
"""A location. Within these bounds no product of prior numbers and statistics leaves float64."""

POSITIVE: Final = Number(minimum=1e-50, maximum=1e50)
"""A precision, rate, scale, shape or pseudo-count."""


def spread(value: float | tuple[float, ...], size: int, field: str, of: str) -> tuple[float, ...]:
    """One number for each of `size` coordinates; raises OptionsError where a list has another length."""
    if not isinstance(value, tuple):
        return (value,) * size
    if len(value) != size:
        raise OptionsError(field, f"must be one number, or a list of {size}: one for each {of}", value)
    return value
