"""Steps of `poisson_mh` and partial shuffles as machine code, for targets whose events are margins. Needs numba."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.gradients.minibatches import Indices
from streaminfer.sampling.kernels.compiled import is_finite, jit, product, slope
from streaminfer.sampling.subsets import shuffling
from streaminfer.sampling.subsets.proxy import ROUNDING

_LOG_ROOT: Final = 0.5 * math.log(2 * math.pi)
_TAIL: Final = -4.0
_ROOT_2: Final = math.sqrt(2)

swapped = jit(shuffling.swapped)
swapped_back = jit(shuffling.swapped_back)


@jit
def value(link: int, z: float) -> float:
    """f of a margin: log sigmoid, or log Phi by erfc and, in the tail, by phi and the slope."""
    if link == 0:
        return -math.log1p(math.exp(-z)) if z > 0 else z - math.log1p(math.exp(z))
    if z > _TAIL:
        return math.log(0.5 * math.erfc(-z / _ROOT_2))
    return -0.5 * z * z - _LOG_ROOT - math.log(slope(link, z))


@jit
def log_density(rows: Matrix, link: int, theta: Vector, mean: Vector, precision: Vector) -> float:
    """Of theta (d,), apart from the prior's constant."""
    total, d = 0.0, len(theta)
    for c in range(d):
        total -= 0.5 * precision[c] * (theta[c] - mean[c]) ** 2
    for n in range(len(rows)):
        margin = 0.0
        for c in range(d):
            margin += rows[n, c] * theta[c]
        total += value(link, margin)
    return total


@jit
def remainder_change(link: int, order: int, before: float, after: float, base: float) -> float:
    """By how much the remainder of an event changes, of its margins here, there and at the anchor."""
    change = value(link, after) - value(link, before)
    if order > 0:
        steep = slope(link, base)
        change -= steep * (after - before)
        if order > 1:
            bend = steep * (1 - steep) if link == 0 else steep * (steep + base)
            change += 0.5 * bend * (after - before) * (after + before - 2 * base)
    return change


@jit
def most(order: int, before: Vector, after: Vector) -> float:
    """M of two places (d,) relative to the anchor, as `remainders.change` has it."""
    here = there = between = 0.0
    for c in range(len(before)):
        here += before[c] * before[c]
        there += after[c] * after[c]
        between += (after[c] - before[c]) ** 2
    here, there, between = math.sqrt(here), math.sqrt(there), math.sqrt(between)
    furthest = max(here, there)
    if order == 0:
        return between
    if order == 1:
        return furthest * between
    return min(0.5 * furthest**2 * between, (here**3 + there**3) / 6)


@jit
def picked(cumulative: Vector, last: int, at: float) -> int:
    """The first event whose sum of scales is above a number."""
    low, high = 0, len(cumulative)
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] <= at:
            low = middle + 1
        else:
            high = middle
    return min(low, last)


@jit
def smooth_change(
    order: int,
    theta: Vector,
    proposed: Vector,
    anchor: Vector,
    gradient: Vector,
    second: Matrix,
    mean: Vector,
    precision: Vector,
) -> float:
    """By how much the log of the prior and of the expansion change."""
    d, total = len(theta), 0.0
    for c in range(d):
        move = proposed[c] - theta[c]
        steep = -precision[c] * (0.5 * (proposed[c] + theta[c]) - mean[c])
        if order > 0:
            steep += gradient[c]
        if order > 1:
            for k in range(d):
                steep += second[c, k] * (0.5 * (theta[k] + proposed[k]) - anchor[k])
        total += move * steep
    return total


@jit
def log_ratio(
    rows: Matrix,
    link: int,
    order: int,
    theta: Vector,
    after: Vector,
    anchor: Vector,
    scales: Vector,
    cumulative: Vector,
    last: int,
    furthest: float,
    chi: float,
    count: int,
    rng: np.random.Generator,
    fault: Vector,
) -> tuple[int, float]:
    """The sum of log(b_n / f_n) over the events of a minibatch that are kept; first an event that is at `fault`."""
    total, found = cumulative[len(cumulative) - 1], 0.0
    for _ in range(count):
        event = picked(cumulative, last, rng.random() * total)
        level = rng.random()
        before = beyond = base = 0.0
        for c in range(len(theta)):
            x = rows[event, c]
            before += x * theta[c]
            beyond += x * after[c]
            base += x * anchor[c]
        change, bound = remainder_change(link, order, before, beyond, base), scales[event] * furthest
        room = ROUNDING * (1 + abs(value(link, before)) + abs(value(link, beyond)))
        if not abs(change) <= bound + room:
            fault[0], fault[1] = change, bound
            return event, 0.0
        change = min(max(change, -bound), bound)
        least = chi * total * furthest * bound
        forth = least + 0.5 * (bound - change)
        if level * (least + bound) < forth:
            found += math.log((least + 0.5 * (bound + change)) / forth)
    return -1, found


@jit
def poisson_mh(
    rows: Matrix,
    link: int,
    order: int,
    anchor: Vector,
    gradient: Vector,
    second: Matrix,
    inverse: Matrix,
    scales: Vector,
    cumulative: Vector,
    last: int,
    mean: Vector,
    precision: Vector,
    moves: Matrix,
    levels: Vector,
    chi: float,
    rng: np.random.Generator,
    path: Matrix,
    known: Vector,
    counts: Indices,
    fault: Vector,
) -> int:
    """A block of steps into `path`; returns an event whose bound is broken, with its `fault`, or -1.

    `known` is the log density where the chain is and whether it is known, `counts` are the fields of `Info`.
    """
    d, n, cost = path.shape[1], len(rows), 2 if order == 0 else 3
    total = cumulative[n - 1] if n > 0 else 0.0
    here, there, away = np.empty(d), np.empty(d), np.empty(d)
    for c in range(d):
        away[c] = path[0, c] - anchor[c]
    product(inverse, away, here)
    for t in range(len(moves)):
        theta, after = path[t], path[t + 1]
        for c in range(d):
            after[c] = theta[c] + moves[t, c]
            away[c] = after[c] - anchor[c]
        product(inverse, away, there)
        furthest = most(order, here, there)
        events = chi * (total * furthest) ** 2 + total * furthest
        counts[1] += 1
        reached, log_alpha = math.nan, -math.inf
        if not is_finite(after):
            pass
        elif not events < n:
            counts[2] += n if known[1] > 0 else 2 * n
            counts[3] += n
            if known[1] == 0:
                known[0], known[1] = log_density(rows, link, theta, mean, precision), 1.0
            reached = log_density(rows, link, after, mean, precision)
            log_alpha = reached - known[0]
        else:
            log_alpha = smooth_change(order, theta, after, anchor, gradient, second, mean, precision)
            count = rng.poisson(events)
            counts[2] += cost * count
            counts[3] += count
            event, noise = log_ratio(
                rows, link, order, theta, after, anchor, scales, cumulative, last, furthest, chi, count, rng, fault
            )
            if event >= 0:
                return event
            log_alpha += noise
        if levels[t] < log_alpha:
            counts[0] += 1
            here, there = there, here
            known[0], known[1] = (0.0, 0.0) if math.isnan(reached) else (reached, 1.0)
        else:
            after[:] = theta
    return -1
