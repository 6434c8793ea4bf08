"""One round of combining: from the windows of all subposteriors to what a snapshot shows.

A round asks those who hold the data, so it is a generator: it yields what it asks and is sent the replies. Services send
questions over the bus, `fit` answers them from rows at hand. All random numbers follow from the seed and the round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import advice, correction, table
from streaminfer.combining.correction import Corrected
from streaminfer.combining.part import Combined, Gaussian, Options, Part
from streaminfer.combining.prior_share import gaussian_share
from streaminfer.combining.questions import LOG_LIKELIHOOD, Asked, Question
from streaminfer.combining.windows import Window
from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.pooled import gathering, pooling
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.pooling import Chain
from streaminfer.sampling.pooled.showing import Showing
from streaminfer.sampling.pooled.shown import NOTHING, Combination, Shown
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Combine

PROPOSALS: Final = 10_000


Replies = Mapping[int, NDArray[np.float64]]
"""By subposterior; one without events has none."""
Round = Generator[Question, Replies, "Made"]
"""Asks, is sent the replies, and ends with what it has made."""


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """The statistics and some draws (m, D) of the posterior, and how they came about."""

    statistics: pooling.Statistics
    draws: Matrix
    n_draws: int
    combination: Combination


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What a round is of: windows, of which some may have no draws, and a target of J subposteriors."""

    windows: Sequence[Window]
    target: Any
    how: Combine
    subposteriors: int
    seed: int
    number: int

    @property
    def parts(self) -> list[Part]:
        return [each.part for each in self.windows if each.part is not None]

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Who has a share of the data."""
        found = [each for each in self.windows if each.part is not None]
        return tuple(Asked(each.shown.subposterior, each.shown.segment, each.spans) for each in found)

    @property
    def shares(self) -> list[Gaussian]:
        """What stands for subposteriors without draws, if the prior is a Gaussian: else they are left out of averages,
        and the correction makes up for it."""
        n_without = sum(each.part is None for each in self.windows)
        share = gaussian_share(self.target, self.subposteriors) if n_without else None
        return [] if share is None else [share] * n_without


def begin(given: Given) -> Round:
    """Combines, and corrects if that is wanted and possible; raises Refused."""
    how, rng = given.how, Key(given.seed, "combine", 0, given.number).generator(0)
    options = Options(n=how.window, weights=how.weights or "full", bandwidth=how.bandwidth, missing=given.shares)
    combined = yield from table.combiner(how.by)(given.parts, rng, options)
    corrected = None
    if how.correct == "importance":
        proposals = correction.propose(combined, rng, PROPOSALS)
        replies = yield Question(LOG_LIKELIHOOD, proposals.theta, given.asked)
        corrected = correction.weigh(proposals, _log_density(given.target, proposals.theta, replies))
    return _made(given, combined, corrected, rng)


def finished(given: Given, answer: Callable[[Question, int], NDArray[np.float64]]) -> Made:
    """A whole round, with the answers of each subposterior at hand; raises Refused."""
    steps = begin(given)
    try:
        question = next(steps)
        while True:
            question = steps.send({each.subposterior: answer(question, each.subposterior) for each in question.shares})
    except StopIteration as end:
        made: Made = end.value
        return made


def showing_of(windows: Sequence[Window], made: Made, gathered: Gathering, complete: bool) -> Showing:
    """What a snapshot shows of it."""
    used = [each for each in windows if not each.shown.left_out]
    counters = [
        gathering.total(gathered.windows(each.shown.subposterior, each.shown.segment))
        for each in used
        if each.shown.segment != NOTHING
    ]
    shown = Shown(
        segment=max(each.shown.segment for each in used),
        complete=complete,
        n_draws=made.n_draws,
        counters=Counters(*(sum(numbers) for numbers in zip(*counters, strict=True))),
        n_scored=sum(each.n_scored for each in used),
        subposteriors=tuple(each.shown for each in windows),
        combined=made.combination,
    )
    return Showing(
        made.statistics.vector,
        made.draws,
        shown,
        n_events=sum(each.shown.n_events for each in used),
        n_dead_lettered=sum(each.n_dead_lettered for each in used),
        score=sum(each.score for each in used),
    )


def _log_density(target: Any, theta: Matrix, replies: Replies) -> Vector:
    """The likelihood of all shares of the data, and the prior once."""
    total = np.asarray(target.log_prior(theta), dtype=np.float64).copy()
    for j in sorted(replies):
        total += replies[j]
    return total


def _made(given: Given, combined: Combined, corrected: Corrected | None, rng: np.random.Generator) -> Made:
    good = corrected is not None and corrected.good
    theta, weights = combined.draws, np.ones(len(combined.draws))
    if corrected is not None and good:
        theta, weights = corrected.theta, corrected.weights
    draws = flat.flatten(given.target.constrain(theta), given.target.shapes)
    statistics = pooling.statistics([Chain(draws, weights)])
    (which,) = pooling.chosen([Chain(draws, weights)], rng, given.how.draws)
    return Made(statistics, draws[which], len(draws), _combination(given, combined, corrected))


def _combination(given: Given, combined: Combined, corrected: Corrected | None) -> Combination:
    how = given.how
    warnings = advice.warnings(given.parts, combined, how.by, corrected)
    found = Combination(given.number, how.by, how.weights, warnings=tuple(warnings))
    if corrected is None:
        return found
    evidence = corrected.good and getattr(given.target, "is_normalised", True)
    return found._replace(
        corrected=corrected.good,
        n_proposals=len(corrected.theta),
        k_hat=corrected.k_hat,
        threshold=corrected.threshold,
        log_evidence=corrected.log_evidence if evidence else None,
        log_evidence_error=corrected.log_evidence_error if evidence else None,
    )
