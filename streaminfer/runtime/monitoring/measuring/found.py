"""What a check has found, before it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streaminfer.measuring.measurement import Value
from streaminfer.measuring.values import known


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Values and what they are of; see `measurement.Measurement`."""

    values: tuple[Value, ...]
    target: str = ""
    n_draws: int = 0
    n_data: int = 0
    base_version: int = 0
    """The older snapshot that events were added to, or that predicted them; 0: the prior of the spec."""
    curves: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


def value(name: str, coordinate: str, number: float, se: float | None = None) -> Value:
    """A number that may not be known."""
    return Value(name, coordinate, known(number), known(se))
