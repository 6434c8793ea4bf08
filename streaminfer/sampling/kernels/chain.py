"""What chains of all stochastic-gradient methods are made of, and what a block of their steps returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.minibatches import Indices, Minibatches
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.gradients.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Dynamics:
    """How a chain moves: gradients from minibatches, sizes of steps, and a preconditioner."""

    gradients: Gradients
    minibatches: Minibatches
    schedule: Schedule
    preconditioner: Preconditioner


class StepBlock(NamedTuple):
    """A block of steps: positions (count, d) after each, and their weights (count,) in an average."""

    positions: Matrix
    weights: Vector


class Info(NamedTuple):
    """What a block of steps has cost, and how it went."""

    n_gradient: int
    """Gradients of single events."""
    n_undone: int
    """Steps that left the finite numbers and were undone."""


class Tally:
    """Counts steps that are undone while a block goes on; the first number is of those in a row."""

    def __init__(self, in_a_row: int) -> None:
        self.counts: Indices = np.array([in_a_row, 0])

    def keep(self, *after: NDArray[np.float64]) -> bool:
        """Whether all numbers after a step are finite, so that it counts."""
        # A finite sum has finite terms, and is found in a quarter of the time.
        good = all(math.isfinite(each.sum()) or np.isfinite(each).all() for each in after)
        if good:
            self.counts[0] = 0
        else:
            self.counts += 1
        return good


def info(dynamics: Dynamics, indices: Indices, tally: Tally) -> Info:
    return Info(indices.size * dynamics.gradients.cost, int(tally.counts[1]))


def as_rows(matrix: NDArray[np.float64]) -> Matrix:
    """A matrix as compiled loops want it: (d, d), or a diagonal as (1, d)."""
    return np.ascontiguousarray(np.atleast_2d(matrix))
