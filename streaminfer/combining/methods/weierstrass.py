"""Weierstrass Gibbs refinement (Wang and Dunson 2013).

Every subposterior has a copy xi_j of theta with a Gaussian of variance h^2 around it. In turn xi_j is drawn from
N(xi_j | theta, h^2) f_j(xi_j), and theta from N(mean of xi, h^2 / J). Many chains start at draws of the average and run
side by side, so that one round is one question to all who hold data. theta moves only once in `every` steps of xi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.methods import average, coordinates
from streaminfer.combining.part import Combined, Options, Part, Refine, none_missing
from streaminfer.combining.picking import at_most, wanted
from streaminfer.models.model import Matrix, Vector

BANDWIDTH: Final = 0.5
"""The default, in a subposterior's deviations: the posterior is 1 + h^2 times too wide."""
_NUMBERS: Final = 1 << 21


def combine(parts: Sequence[Part], rng: np.random.Generator, options: Options) -> Combined:
    """What chains have after `options.rounds`, with the correlation of their last two rounds."""
    none_missing(options, "weierstrass")
    found = moments.of_parts(parts)
    start = average.averaged(parts, found, average.matrices_of(found, options), rng, options).draws
    h = BANDWIDTH if options.bandwidth is None else options.bandwidth
    variance = h**2 * coordinates.variances(found)
    refine = options.refine or from_draws([at_most(part, options.components, rng) for part in parts])
    before = theta = start
    for now in rounds(start, len(parts), variance, refine, options.every, options.rounds, rng):
        before, theta = theta, now
    mean = theta.mean(axis=0)
    again, around = before - before.mean(axis=0), theta - mean
    correlation = (again * around).mean(axis=0) / (again.std(axis=0) * around.std(axis=0))
    notes = {"bandwidth": h, "autocorrelation": float(correlation.max())}
    cov = around.T @ around / max(1, wanted(parts, options.n) - 1)
    return Combined(theta, mean, cov, found, notes)


def rounds(
    theta: Matrix, j: int, variance: Vector, refine: Refine, every: int, n: int, rng: np.random.Generator
) -> Iterator[Matrix]:
    """theta (n, d) after each of n rounds of all chains with j subposteriors."""
    copies = [theta] * j
    for _ in range(n):
        for i in range(j):
            for _ in range(every):
                copies[i] = refine(i, theta, copies[i], variance, rng)
        theta = given_copies(np.mean(copies, axis=0), j, variance, rng)
        yield theta


def given_copies(mean: Matrix, j: int, variance: Vector, rng: np.random.Generator) -> Matrix:
    """theta given the mean (n, d) of its j copies: N(mean, h^2 / j)."""
    return np.asarray(mean + np.sqrt(variance / j) * rng.standard_normal(mean.shape), dtype=np.float64)


def from_draws(draws: Sequence[Matrix]) -> Refine:
    """Refines by choosing among the draws of a subposterior, by how near they are to theta."""

    def refine(j: int, theta: Matrix, xi: Matrix, variance: Vector, rng: np.random.Generator) -> Matrix:
        del xi
        unit = 1 / np.sqrt(variance)
        centre = draws[j].mean(axis=0)
        known, asked = (draws[j] - centre) * unit, (theta - centre) * unit
        squares = 0.5 * (known * known).sum(axis=1)
        found = np.empty(len(theta), dtype=np.intp)
        step = max(1, _NUMBERS // len(known))
        for begin in range(0, len(theta), step):
            logs = asked[begin : begin + step] @ known.T - squares
            shares = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
            places = rng.random(len(shares)) * shares[:, -1]
            found[begin : begin + step] = (shares < places[:, None]).sum(axis=1)
        return np.asarray(draws[j][np.minimum(found, len(known) - 1)])

    return refine
