"""One round of combining: from the windows of all subposteriors to what a snapshot shows.

A round asks those who hold the data, by a function. Services answer over the bus: until an answer is there the function
raises, and the round is run again from its start with the answers so far. That is the same round, as all its random
numbers follow from the seed and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import advice, correction, labels, table
from streaminfer.combining.correction import Corrected, Proposals
from streaminfer.combining.part import Combined, Gaussian, Options, Part, Weights
from streaminfer.combining.picking import systematic
from streaminfer.combining.prior_share import gaussian_share
from streaminfer.combining.questions import GRADIENT, LOG_LIKELIHOOD, REFINE, Asked, Question
from streaminfer.combining.windows import Window, least_effective
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

STEPS: Final = 60
"""Questions of `variational`: each is a way to all who hold data and back."""
MINIBATCH: Final = 512
CHAINS, ROUNDS = 500, 10
"""Of `weierstrass`: a round is a question, and an answer moves every chain by many steps on all events."""
MOST_QUESTIONS: Final = 10_000
"""Of one round."""

Replies = Mapping[int, NDArray[np.float64]]
"""By subposterior; one without events has none."""
Ask = Callable[[Question], Replies]


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
    def asked(self) -> tuple[Asked, ...]:
        """Who has a share of the data."""
        found = [each for each in self.windows if each.part is not None]
        return tuple(Asked(each.shown.subposterior, each.shown.segment, each.spans) for each in found)

    @property
    def shares(self) -> list[Gaussian]:
        """What stands for subposteriors without draws, if the prior is a Gaussian.

        Otherwise they are left out of averages, and the correction makes up for it.
        """
        n_without = sum(each.part is None for each in self.windows)
        share = gaussian_share(self.target, self.subposteriors) if n_without else None
        return [] if share is None else [share] * n_without

    def aligned(self) -> tuple[list[Part], float]:
        """The draws of subposteriors, and the part of these whose components match those of the first in two ways."""
        parts = [each.part for each in self.windows if each.part is not None]
        if not getattr(self.target, "is_exchangeable", False):
            return parts, 0.0
        found = labels.aligned([self.target.constrain(part.values) for part in parts])
        ordered = [np.asarray(self.target.unconstrain(each), dtype=np.float64) for each in found.parts]
        return [
            Part(values, part.weights, part.effective) for values, part in zip(ordered, parts, strict=True)
        ], found.ambiguous


def made(given: Given, ask: Ask) -> Made:
    """Combines, and corrects if that is wanted and possible; raises Refused, and whatever `ask` raises."""
    begun = Round(given, ask)
    return begun.corrected() if given.how.correct == "importance" else begun.plain()


class Round:
    """A round step by step: it combines when it is made, and corrects if it is told to. Raises what `made` raises."""

    def __init__(self, given: Given, ask: Ask) -> None:
        how = given.how
        self._given, self._rng = given, Key(given.seed, "combine", 0, given.number).generator(0)
        parts, self._ambiguous = given.aligned()
        self._questions = _Questions(given, ask)
        options = Options(
            n=CHAINS if how.by == "weierstrass" else how.window,
            weights=_weights(how),
            bandwidth=how.bandwidth,
            missing=given.shares,
            gradient=self._questions.gradient,
            refine=self._questions.refine,
            steps=STEPS,
            minibatch=MINIBATCH,
            rounds=ROUNDS,
        )
        self._combined = table.combiner(how.by)(parts, self._rng, options)

    def plain(self) -> Made:
        """As the combiner made it."""
        return _made(self._given, self._combined, None, None, self._ambiguous, self._rng)

    def corrected(self) -> Made:
        """By the exact density, if that is reliable; else as the combiner made it, with k-hat."""
        proposals = correction.propose(self._combined, self._rng)
        densities = self._questions.log_density(proposals.values)
        found = correction.weigh(proposals, densities, self._rng, self._given.how.draws)
        return _made(self._given, self._combined, proposals, found, self._ambiguous, self._rng)


def _weights(how: Combine) -> Weights:
    found: Weights = "diagonal" if how.weights == "diagonal" else "equal" if how.weights == "equal" else "full"
    return found


class _Questions:
    """What combiners need to know of the posterior, asked of those who hold the data; the prior is added once."""

    def __init__(self, given: Given, ask: Ask) -> None:
        self._target, self._asked, self._ask = given.target, given.asked, ask
        self._seed, self._number = given.seed, given.number * MOST_QUESTIONS
        self._refined: tuple[Matrix, Replies] | None = None
        self._served: set[int] = set()

    def log_density(self, theta: Matrix) -> Vector:
        return self._with_prior(LOG_LIKELIHOOD, theta, self._target.log_prior(theta))

    def gradient(self, theta: Matrix) -> Matrix:
        return self._with_prior(GRADIENT, theta, self._target.prior_gradient(theta))

    def _with_prior(self, kind: str, theta: Matrix, prior: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum over all shares of the data, and the prior."""
        replies = self._ask(Question(kind, theta, self._asked))
        total = np.array(prior, dtype=np.float64)
        for j in sorted(replies):
            total += replies[j]
        return total

    def refine(self, j: int, theta: Matrix, xi: Matrix, variance: Vector, rng: np.random.Generator) -> Matrix:
        """One question for all subposteriors, as theta is the same: only the first of them asks."""
        del xi, rng  # an answer starts at theta, with random numbers of its own
        if self._refined is None or self._refined[0] is not theta or j in self._served:
            self._number += 1
            question = Question(REFINE, theta, self._asked, np.sqrt(variance), self._seed, self._number)
            self._refined, self._served = (theta, self._ask(question)), set()
        self._served.add(j)
        return self._refined[1][self._asked[j].subposterior]


def _made(
    given: Given, combined: Combined, proposals: Proposals | None, corrected: Corrected | None, ambiguous: float,
    rng: np.random.Generator,
) -> Made:  # fmt: skip
    theta, weights = combined.draws, np.ones(len(combined.draws))
    if proposals is not None and corrected is not None and corrected.is_reliable:
        theta, weights = proposals.values, corrected.weights
    draws = flat.flatten(given.target.constrain(theta), given.target.shapes)
    statistics = pooling.statistics([Chain(draws, weights)])
    n = min(given.how.draws, pooling.MOST_BYTES // (8 * draws.shape[1]))
    which = systematic(weights, n, rng)
    warnings = (*_poor(given), *advice.warnings(given.how.by, combined, corrected, ambiguous))
    return Made(statistics, draws[which], len(draws), _combination(given, corrected, ambiguous, warnings))


def _poor(given: Given) -> list[str]:
    """Of the subposterior whose draws are worth least, if that is too little for good weights."""
    worst = min((each.shown for each in given.windows if each.part is not None), key=lambda part: part.n_effective)
    least = least_effective(int(given.target.dimension))
    if worst.n_effective >= least:
        return []
    which = f"the draws of subposterior {worst.subposterior} are worth {worst.n_effective:.0f} independent ones"
    return [f"{which}, and good weights need {least:.0f}: set inference.draws or inference.thin higher"]


def _combination(given: Given, corrected: Corrected | None, ambiguous: float, warnings: tuple[str, ...]) -> Combination:
    how = given.how
    found = Combination(given.number, how.by, how.weights, ambiguous=ambiguous, warnings=warnings)
    if corrected is None:
        return found
    evidence = corrected.is_reliable and getattr(given.target, "is_normalised", False)
    return found._replace(
        corrected=corrected.is_reliable,
        n_proposals=correction.PROPOSALS,
        k_hat=corrected.k_hat if np.isfinite(corrected.k_hat) else None,
        threshold=corrected.threshold,
        log_evidence=corrected.log_evidence if evidence else None,
        log_evidence_error=corrected.log_evidence_error if evidence else None,
    )


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
