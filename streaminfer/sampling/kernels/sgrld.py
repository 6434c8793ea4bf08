"""Stochastic gradient Riemannian Langevin dynamics on the simplex (Patterson & Teh 2013).

Probabilities are w / sum w of positive weights w ~ Gamma(c, 1), c the concentration: the expanded mean. In the metric
diag(w)^-1 a step is |w + eps/2 (c - w + N/B (counts - n p)) + sqrt(eps w) z|, the mirror at 0 included. If c + count of
a cell is below 1 its density has a pole at 0, and steps are too coarse there: `cir` takes exact transitions of the
process with counts fixed for a step (Baker et al. 2018) instead, whose only error is the noise of the minibatch.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector

Transition = Literal["euler", "cir"]
Array = NDArray[np.float64]


class State(NamedTuple):
    """Weights (..., K) above 0, number of steps, how many of the last were undone in a row."""

    weights: Array
    n_steps: int
    undone: int


class Info(NamedTuple):
    """Whether the step left the finite numbers and was undone."""

    n_undone: int


def init(weights: Array) -> State:
    return State(np.array(weights, dtype=np.float64), 0, 0)


def probabilities(weights: Array) -> Array:
    """w / sum w over the last axis."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True), dtype=np.float64)


def step(weights: Array, concentration: float | Array, counts: Array, noise: Array, size: float) -> Array:
    """One mirrored step from standard noise (..., K).

    `counts` (..., K) are of a minibatch, scaled to all events: N/B times the number of events in each cell.
    """
    total = counts.sum(axis=-1, keepdims=True)
    drift = concentration - weights + counts - total * probabilities(weights)
    moved: Array = weights + 0.5 * size * drift + np.sqrt(size * weights) * noise
    return np.abs(moved)


def exact_step(
    weights: Array, concentration: float | Array, counts: Array, rng: np.random.Generator, size: float
) -> Array:
    """A transition over time `size` of dw = (c + counts - w)/2 dt + sqrt(w) dz: a scaled noncentral chi-square.

    Its stationary distribution is Gamma(c + counts, 1), whose proportions are the posterior of the probabilities.
    """
    decay = math.exp(-0.5 * size)
    scale = 0.5 * (1 - decay)
    return np.asarray(
        scale * rng.noncentral_chisquare(2 * (concentration + counts), weights * decay / scale), dtype=np.float64
    )


def advance(
    state: State,
    concentration: float | Array,
    counts: Array,
    rng: np.random.Generator,
    size: float,
    transition: Transition = "euler",
) -> tuple[State, Info]:
    """One step that is undone if it leaves the positive finite numbers."""
    with np.errstate(all="ignore"):
        if transition == "euler":
            after = step(state.weights, concentration, counts, rng.standard_normal(state.weights.shape), size)
        else:
            after = exact_step(state.weights, concentration, counts, rng, size)
    good = bool(np.isfinite(after).all() and (after.sum(axis=-1) > 0).all())
    weights = np.maximum(after, 1e-300) if good else state.weights
    return State(weights, state.n_steps + 1, 0 if good else state.undone + 1), Info(int(not good))


def steps(
    state: State,
    concentration: Vector,
    minibatches: Matrix,
    rng: np.random.Generator,
    sizes: Vector,
    transition: Transition = "euler",
) -> tuple[State, Matrix, Info]:
    """A block of steps from the scaled counts (count, K) of its minibatches; positions are probabilities (count, K)."""
    positions, undone = np.empty(minibatches.shape), 0
    for t, (counts, size) in enumerate(zip(minibatches, sizes.tolist(), strict=True)):
        state, info = advance(state, concentration, counts, rng, size, transition)
        positions[t] = probabilities(state.weights)
        undone += info.n_undone
    return state, positions, Info(undone)


def scaled_counts(categories: Vector, indices: NDArray[np.int64], k: int) -> Matrix:
    """N/B times the counts of k categories in each minibatch (count, B) of rows: (count, k)."""
    count, size = indices.shape
    cells = np.arange(count)[:, None] * k + categories[indices].astype(np.int64)
    counted = np.bincount(cells.ravel(), minlength=count * k).reshape(count, k)
    return np.asarray(counted * (len(categories) / size), dtype=np.float64)
