"""Whether events are as they were predicted: ranks, coverage, reliability, and a test that may be asked at any time.

The randomised probability integral transform of an event is uniform if the predictive is right (Dawid 1984; Czado,
Gneiting & Held 2009 for counts). The event must not be in the posterior that predicts it. What is wrong is told as an
effect with a standard error. A p-value would alarm in the end on any stream, as no model is exactly right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import ndtri_exp
from streaminfer.models.model import Matrix, Vector
from streaminfer.variational.drift import watching
from streaminfer.variational.drift.ranks import Share

BINS: Final = 32
"""Of ranks, for the bets."""
SHIFTS: Final = (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0)
"""Bets that events are lower or higher than predicted, in deviations of what was predicted."""
WIDTHS: Final = (0.5, 0.8, 1.25, 2.0)
"""Bets that deviations are these times what was predicted."""
BLOCK: Final = 32
"""Events whose bets are multiplied before evidence is added."""
_NORMAL: Final = NormalDist()


class Estimate(NamedTuple):
    """A number with its standard error."""

    value: float
    se: float


def pit(simulated: NDArray[np.float64], observed: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Ranks of observed values (...) among k simulated ones (k, ...), as numbers from 0 to 1, ties broken at random.

    (less + U (equal + 1)) / (k + 1), U uniform: exactly uniform if the observed value is drawn as the others were.
    """
    less, equal = (simulated < observed).sum(axis=0), (simulated == observed).sum(axis=0)
    return np.asarray((less + rng.random(observed.shape) * (equal + 1)) / (len(simulated) + 1), dtype=np.float64)


def predicted(model: Any, parameters: Any, events: Matrix, rng: np.random.Generator) -> Matrix:
    """`pit` of what a model explains, (n, columns), by draws of its parameters (k, ...) that do not know the events."""
    names = [field.name for field in model.fields]
    columns = [names.index(name) for name in explained(model)]
    simulated = np.asarray(model.simulate(rng, parameters, events), dtype=np.float64)
    return pit(simulated[:, :, columns], events[:, columns], rng)


def explained(model: Any) -> list[str]:
    """The fields that a model explains: those that are not its inputs, or else all."""
    given = {field.name for field in getattr(model, "inputs", ())}
    return [each.name for each in model.fields if each.name not in given] or [each.name for each in model.fields]


class Uniformity(NamedTuple):
    """How far ranks are from uniform: both numbers are what they should be if the model is right, 0 and 1.

    `shift` is the mean of their normal scores: above 0 if events are higher than predicted. `width` is the deviation of
    these: above 1 if events spread more than predicted.
    """

    shift: Estimate
    width: Estimate


def uniformity(ranks: NDArray[np.float64]) -> Uniformity:
    """Of n >= 2 ranks from 0 to 1, by their normal scores z."""
    flat = np.clip(np.ravel(ranks), 2.0**-53, 1 - 2.0**-53)
    _require(len(flat))
    z = ndtri_exp(np.log(flat))
    squares = np.square(z - z.mean())
    width = math.sqrt(float(squares.mean()))
    width_se = float(squares.std(ddof=1)) / math.sqrt(len(z)) / (2 * max(width, 1e-300))
    return Uniformity(_mean(z), Estimate(width, width_se))


def coverage(ranks: NDArray[np.float64], level: float) -> Estimate:
    """Which part of events is in the central predictive interval that should hold `level`.

    The standard error is at least that of a part equal to the level: 20 of 20 events do not make a certainty.
    """
    inside = np.abs(np.ravel(ranks) - 0.5) <= 0.5 * level
    _require(len(inside))
    part = float(inside.mean())
    return Estimate(part, math.sqrt(max(part * (1 - part), level * (1 - level)) / len(inside)))


class Reliability(NamedTuple):
    """Of 0/1 targets by predicted probability: what was predicted and what happened, in bins of equal counts.

    `curve` (bins, 4) has mean probability, frequency of ones, its standard error and the number of events. `bias` is
    frequency less probability over all events. `error` is the root mean square of frequency less probability over bins,
    without what chance alone makes of it.
    """

    curve: Matrix
    bias: Estimate
    error: Estimate


def reliability(probabilities: Vector, outcomes: Vector, bins: int = 10) -> Reliability:
    """Probabilities of a one (n,) that were said before outcomes (n,), which are 0 or 1."""
    _require(len(outcomes))
    order = np.argsort(probabilities, kind="stable")
    rows, squares, spread = [], 0.0, 0.0
    for part in np.array_split(order, min(bins, len(order))):
        p, y, n = probabilities[part], outcomes[part], len(part)
        variance = float((p * (1 - p)).sum()) / n**2
        off = float(y.mean() - p.mean())
        rows.append([float(p.mean()), float(y.mean()), math.sqrt(variance), float(n)])
        squares += n * (off**2 - variance)
        spread += n**2 * (2 * variance**2 + 4 * variance * off**2)
    total = len(outcomes)
    error = math.sqrt(max(squares / total, 0.0))
    # The root of a mean square of deviation s has the deviation s / (2 root), and sqrt(s) if the root is near 0.
    deviation = math.sqrt(spread) / total
    return Reliability(
        np.array(rows),
        Estimate(
            float((outcomes - probabilities).mean()),
            math.sqrt(float((probabilities * (1 - probabilities)).sum())) / total,
        ),
        Estimate(error, min(deviation / (2 * error) if error > 0 else math.inf, math.sqrt(deviation))),
    )


class Evidence(NamedTuple):
    """Against uniform ranks, by bet: R of an e-detector as in `variational.drift.watching`, one number for each bet.

    `left` are the ranks of a block that is not full yet.
    """

    r: tuple[float, ...] = (0.0,) * (len(SHIFTS) + len(WIDTHS))
    left: tuple[float, ...] = ()
    n_events: int = 0
    n_alarms: int = 0
    alarm_at: int = -1
    """Events seen at the newest alarm; -1 before the first."""

    @property
    def mean(self) -> float:
        """R of the mixture of bets."""
        return sum(self.r) / len(self.r)


def watch(evidence: Evidence, ranks: Sequence[float] | Vector, budget: float) -> Evidence:
    """The evidence with more ranks, one for each event, in their order; at `budget` there is an alarm and R is 0 again.

    R <- (R + n) e for a block of n events, with e >= 0 of mean 1 if ranks are uniform. So there is at most one false
    alarm in `budget` events on average (Shin, Ramdas & Rinaldo 2023). A year's events are a budget of one a year.
    """
    waiting = np.concatenate([evidence.left, np.asarray(ranks, dtype=np.float64)])
    full = len(waiting) // BLOCK * BLOCK
    table = _bets()
    for block in waiting[:full].reshape(-1, BLOCK):
        which = np.minimum((block * BINS).astype(np.intp), BINS - 1)
        won = np.exp(np.minimum(np.log(table[:, which]).sum(axis=1), 600.0))
        r = np.minimum((np.array(evidence.r) + BLOCK) * won, 1e300)
        evidence = evidence._replace(r=tuple(r.tolist()), n_events=evidence.n_events + BLOCK)
        if evidence.mean >= budget:
            evidence = Evidence(n_events=evidence.n_events, n_alarms=evidence.n_alarms + 1, alarm_at=evidence.n_events)
    return evidence._replace(left=tuple(waiting[full:].tolist()))


def _bets() -> Matrix:
    """The mean density of ranks in each bin if events are shifted or wider, (bets, BINS): each row has the mean 1."""
    shares = [Share(i / BINS, (i + 1) / BINS) for i in range(BINS)]
    lower = [[watching.bet(share, -shift) for share in shares] for shift in SHIFTS]
    return np.array(lower + [[_wider(share, width) for share in shares] for width in WIDTHS])


def _wider(share: Share, width: float) -> float:
    """The mean over a share of the density of ranks when N(0, 1) has become N(0, width^2)."""
    low, high = (
        rank if rank in {0.0, 1.0} else _NORMAL.cdf(_NORMAL.inv_cdf(rank) / width) for rank in (share.low, share.high)
    )
    return (high - low) / (share.high - share.low)


def simulation_rank(theta: Vector, draws: Matrix, rng: np.random.Generator) -> Vector:
    """The ranks (d,) of the simulating parameters among independent posterior draws (k, d), from 0 to 1.

    Over many simulated data sets they are uniform if the posteriors are right (Talts et al. 2018): `uniformity` of them
    tells by how much they are not. A width above 1 is a posterior that is too sure.
    """
    return pit(draws, theta, rng)


def _mean(values: Vector) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))


def _require(n: int) -> None:
    if n < 2:
        raise ValueError(f"a standard error needs at least 2 events, not {n}")
