"""Bugs of combiners that the simulation must find: each is what a plausible implementation gets wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from streaminfer.combining import windows
from streaminfer.combining.part import Part
from streaminfer.combining.questions import Answer, Question
from streaminfer.combining.windows import Window
from streaminfer.models.model import Matrix
from streaminfer.runtime.pooling.asking import Asker
from streaminfer.runtime.pooling.combining import Combining
from streaminfer.runtime.pooling.joining import Joining
from streaminfer.runtime.pooling.master import PoolingMaster
from streaminfer.runtime.pooling.shard import SampledShard
from streaminfer.runtime.sampling.sampler import Sampler
from streaminfer.sampling.pooled.shown import Fixed, Shown
from streaminfer.wire.avro import Schemas
from tests.simulation.planted_samplers import MasterWithoutFence
from tests.simulation.sampler_world import Samplers

_numbers = itertools.count(1)


class _Shard(SampledShard):
    """A shard whose combining, or asking, is of another class."""

    combining: type[Combining] = Combining
    asker: type[Asker] = Asker

    def _joins(self, clock: Callable[[], float], schemas: Schemas) -> Joining:
        found: Any = super()._joins(clock, schemas)
        found.__class__ = self.combining
        found._asker.__class__ = self.asker
        return found  # type: ignore[no-any-return]


class _WithShard(PoolingMaster):
    shard: type[SampledShard]

    def _open_shard(self) -> SampledShard:
        return self.shard(self._spec, self._settings, self._bus, self._clock, self._metrics, self._schemas)


class _Mixing(Combining):
    def _open_windows(self, before: Shown, now: float) -> None:
        super()._open_windows(before, now)
        fixed = {each.subposterior: each for each in before.segments}
        self._windows = [self._mixed(each, fixed.get(each.shown.subposterior)) for each in self._windows or []]

    def _mixed(self, each: Window, fixed: Fixed | None) -> Window:
        if fixed is None or each.part is None or fixed.number == 0:
            return each
        other = windows._of_segment(self._gathered, fixed, fixed.number - 1, self._target, self._how.window)
        if other.part is None or each.shown.segment != fixed.number:
            return each
        values = np.concatenate([other.part.values, each.part.values])
        return replace(each, part=Part(values, None, each.part.effective + other.part.effective))


class _MixingShard(_Shard):
    combining = _Mixing


class TwoSegments(_WithShard):
    """Goes on with the draws of the segment before, as they are so many."""

    shard = _MixingShard


class _Credulous(Asker):
    def poll(self, timeout: float) -> dict[int, Answer] | None:
        for _, answer, _ in self._reader.poll(timeout):
            self._newest[answer.subposterior] = answer
        question: Question | None = self._open
        if question is None:
            return None
        asked = [share.subposterior for share in question.shares]
        wanted = len(question.theta)
        found = {j: self._newest[j] for j in asked if j in self._newest and len(self._newest[j].values) == wanted}
        return found if len(found) == len(asked) else None


class _CredulousShard(_Shard):
    asker = _Credulous


class AnswersOfAnotherSegment(_WithShard):
    """Takes any answer that has the right size."""

    shard = _CredulousShard


class _OwnRandomness(Combining):
    def look(self, before: Shown, version: int) -> Any:
        if self._settings.seed < 1000:
            self._settings = replace(self._settings, seed=next(_numbers) + 1000)
        return super().look(before, version)


class _OwnRandomnessShard(_Shard):
    combining = _OwnRandomness


class RandomnessOfTheProcess(_WithShard):
    """Every combiner has a generator of its own."""

    shard = _OwnRandomnessShard


class _WithPrior:
    """A target whose likelihood of all rows has the prior in it."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        found: Matrix = self._target.log_likelihood(theta, rows)
        return found + self._target.log_prior(theta)[:, None] / len(rows)


class PriorInEveryAnswer(Sampler):
    """Answers with the density of its own target: whoever sums the answers has the prior once for each share."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        assert self._answering is not None
        self._answering._target = _WithPrior(self._answering._target)


PLANTED: dict[str, Callable[[], Samplers]] = {
    "two segments of a subposterior mixed": lambda: Samplers(master=TwoSegments),
    "an answer of another segment": lambda: Samplers(master=AnswersOfAnotherSegment),
    "randomness of the process": lambda: Samplers(master=RandomnessOfTheProcess),
    "the prior once for each share": lambda: Samplers(sampler=PriorInEveryAnswer),
    "combiner without fence": lambda: Samplers(master=MasterWithoutFence),
}
