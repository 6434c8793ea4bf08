"""What every method of sampling can do with a chain: start it, and take a block of steps."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.draws import Counters


class Block(NamedTuple):
    """A block of steps: the state after it, positions (n, d) after each, and their weights (n,) in an average."""

    state: Any
    positions: Matrix
    weights: Vector
    log_density: Vector
    """(n,), or (0,) if the method does not know it."""
    spent: Counters


class Kernel(Protocol):
    """One method. Its state is a named tuple of numbers, vectors and matrices."""

    @property
    def exactness(self) -> str:
        """`sampled`: the draws are of the target. `approximate`: they are of something near it."""

    @property
    def knows_density(self) -> bool:
        """Whether the log density of a draw is known, or costs no more than a step did."""

    def block(self, prepared: Prepared) -> int:
        """Steps that share one generator of random numbers: 1 if each reads all data."""

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> Any:
        """The state of a chain at a position (d,)."""

    def first(self, prepared: Prepared, rng: np.random.Generator) -> Vector:
        """The position (d,) of a chain that has none."""

    def like(self, prepared: Prepared, n_events: int) -> Any:
        """A state with the shapes that all states have on a segment of so many events."""

    def learns_until(self, prepared: Prepared) -> int:
        """The step up to which a chain learns how to move: its adaptation must end, or diminish."""

    def steps(self, prepared: Prepared, state: Any, rng: np.random.Generator, count: int, learning: bool) -> Block:
        """A block of steps."""

    def position(self, state: Any) -> Vector:
        """Where a chain is, (d,)."""

    def undone(self, state: Any) -> int:
        """How many of the last steps in a row have left the finite numbers."""

    def values(self, prepared: Prepared, positions: Matrix) -> Matrix:
        """The parameters at positions (n, d), flat and in declared order: (n, D)."""
