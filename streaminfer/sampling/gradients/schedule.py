"""Sizes of steps: constant, or falling to a floor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streaminfer.models.model import Vector


@dataclass(frozen=True)
class Schedule:
    """Step t = 0, 1, ... has size max(floor, size (1 + t / after)^-power); a power of 0 is constant.

    A chain with falling steps is averaged by weights that are the sizes of its steps (Welling & Teh 2011).
    """

    size: float
    after: float = 1.0
    power: float = 0.0
    floor: float = 0.0

    def sizes(self, first: int, count: int) -> Vector:
        """The sizes of steps first, ..., first + count - 1."""
        t = np.arange(first, first + count, dtype=np.float64)
        return np.maximum(self.floor, self.size * (1 + t / self.after) ** -self.power)
