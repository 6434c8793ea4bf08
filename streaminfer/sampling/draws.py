"""Draws: what a chain made of a block of steps, and the events that they are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.units import Spans

PHASES: Final = ("setup", "warmup", "draws", "done", "cut")
"""Of a chain in a segment, in their order: `done` has all its draws, `cut` has lost its events before that."""
DRAWING: Final = frozenset({"draws", "done", "cut"})
"""The phases that a block with draws may end in."""


class Counters(NamedTuple):
    """The work of a chain since the start of its segment, in evaluations of one event; those of set-up are apart."""

    n_accepted: int = 0
    n_proposed: int = 0
    n_likelihood: int = 0
    n_gradient: int = 0
    n_setup: int = 0
    n_undone: int = 0
    n_read: int = 0
    """Events that steps have read; without set-up."""


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Draws of one unit at the steps [begin, end) of a segment: n of them, maybe none.

    `phase` is that of the chain after these steps. `values` (n, D) are parameters, flat, in the declared order;
    `log_density` is (n,), or (0,) where the method does not know it. `size` is that of a step, `noise` the variance of
    the gradient's estimate. Counts of events and `frontier` are those of the segment. `score` is the sum of the log
    predictive densities of `n_scored` new events under the draws of the segment before.
    """

    fingerprint: str
    subposterior: int
    chain: int
    segment: int
    phase: str
    begin: int
    end: int
    thin: int
    size: float
    noise: float
    values: Matrix
    weights: Vector
    log_density: Vector
    counters: Counters
    n_events: int
    n_dead_lettered: int
    n_lost: int
    frontier: Spans
    score: float = 0.0
    n_scored: int = 0
