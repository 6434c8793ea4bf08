"""The draws of several subposteriors as one posterior, round by round.

A round begins when there is something new in every window. It asks the samplers, waits for their answers, and ends with
what is shown next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from streaminfer.combining import rounds, windows
from streaminfer.combining.part import Refused
from streaminfer.combining.prior_share import gaussian_share
from streaminfer.combining.questions import Question
from streaminfer.combining.rounds import Given, Made, Replies
from streaminfer.combining.windows import Window
from streaminfer.runtime.pooling.asking import Asker
from streaminfer.runtime.pooling.joining import Joined
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.service import Fatal
from streaminfer.sampling import flat
from streaminfer.sampling.choices.combine import WHOLE
from streaminfer.sampling.pooled import pooling
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.showing import GROWTH, Showing
from streaminfer.sampling.pooled.shown import Fixed, Shown
from streaminfer.sampling.settings import Combine, Settings

log = logging.getLogger(__name__)

PATIENCE_S: Final = 30.0
"""Seconds after which a round gives up waiting for answers if there is something newer to combine."""
REPEAT_S: Final = 10.0
"""Seconds after which a question without answers is put again."""

Signature = tuple[tuple[int, int, bool], ...]
"""By subposterior: its newest segment, how many draws there are of it, and whether these are all."""


class Combining:
    """`ask` puts a question on the bus; `clock` is the owner's."""

    def __init__(
        self,
        settings: Settings,
        how: Combine,
        target: Any,
        gathered: Gathering,
        asker: Asker,
        ask: Callable[[Question], None],
        clock: Callable[[], float],
    ) -> None:
        self._settings, self._how, self._target, self._gathered = settings, how, target, gathered
        self._asker, self._ask, self._clock = asker, ask, clock
        self._teller = Teller(log)
        self._seen: Signature = ()
        """Of the last look at all windows."""
        self._windows: list[Window] | None = None
        """Those that no round has taken yet."""
        self._lacking_since: dict[int, float] = {}
        """By subposterior, since when it lacks draws."""
        self._round: _Round | None = None
        self._n_told = 0
        """Answers that were dropped, as far as `taken_dropped` has told them."""

    def look(self, before: Shown, version: int) -> Joined | None:
        now = self._clock()
        if self._round is not None:
            if (made := self._step(self._round, now)) is not None:
                found, self._round = self._joined(self._round.windows, made, before), None
                return found
            if self._round is not None and not (self._round.is_late(now) and self._is_news(before)):
                return None
            self._round = None
        news = self._is_news(before)
        if news:
            self._open_windows(before, now)
        if self._windows is None:
            return None
        lacking = [each.shown.subposterior for each in self._windows if self._lacks(each)]
        if lacking and not self._may_leave_out(lacking, now):
            return self._waiting(self._windows, before) if news else None
        used = [_left_out(each) if each.shown.subposterior in lacking else each for each in self._windows]
        self._windows = None
        if all(each.part is None for each in used):
            return self._waiting(used, before)
        given = Given(used, self._target, self._how, self._settings.subposteriors, self._settings.seed, version)
        self._round = _Round(given, self._asker, self._ask, now)
        return None

    def _step(self, under_way: _Round, now: float) -> Made | None:
        try:
            return under_way.step(now)
        except Refused as error:
            said = f"inference.combine.by: {self._how.by} cannot combine these draws: {error}"
            if all(each.complete for each in under_way.windows):  # no more will come that could change it
                raise Fatal(f"{said}. Use average, or raise inference.draws.") from error
            self._teller.tell(said)
            self._round = None
            return None

    def _is_news(self, before: Shown) -> bool:
        """Whether a subposterior has changed by enough since the last look."""
        found = self._signature(before.segments)
        return len(self._seen) != len(found) or any(map(_is_new, self._seen, found))

    def _signature(self, segments: Sequence[Fixed]) -> Signature:
        gathered = self._gathered
        return tuple(
            (fixed.number, gathered.n_draws(j, fixed.number), gathered.is_complete(j, fixed.number))
            for fixed in segments
            for j in [fixed.subposterior]
        )

    def _open_windows(self, before: Shown, now: float) -> None:
        self._seen = self._signature(before.segments)
        rest = (self._target, self._how.window, self._settings.subposteriors)
        self._windows = windows.windows(self._gathered, before.segments, *rest)
        lacking = [each.shown.subposterior for each in self._windows if self._lacks(each)]
        self._lacking_since = {j: self._lacking_since.get(j, now) for j in lacking}

    def _lacks(self, each: Window) -> bool:
        """Whether there is neither a draw nor a prior that could stand for it."""
        if each.part is not None:
            return False
        if not each.empty or self._how.by in WHOLE:
            return True
        return self._how.correct != "importance" and gaussian_share(self._target, 1) is None

    def _may_leave_out(self, lacking: Sequence[int], now: float) -> bool:
        waited = all(now - self._lacking_since[j] >= self._how.missing_seconds for j in lacking)
        return self._how.missing == "leave_out" and waited and len(lacking) < self._settings.subposteriors

    def _waiting(self, given: Sequence[Window], before: Shown) -> Joined | None:
        """Before the first combination: how far each subposterior is. It is complete if no more draws will come."""
        if before.combined is not None:
            for each in given:
                if each.shown.why:
                    self._teller.tell(f"subposterior {each.shown.subposterior} is awaited: {each.shown.why}")
            return None
        complete = all(each.complete for each in given)
        shown = Shown(complete=complete, subposteriors=tuple(each.shown for each in given))
        size = flat.size(self._target.shapes)
        n_bad = sum(each.n_dead_lettered for each in given)
        showing = Showing(np.zeros(pooling.statistics_size(size)), np.empty((0, size)), shown, 0, n_bad, 0.0)
        return Joined(showing, tuple(sorted(span for each in given for span in each.spans)) if complete else ())

    def _joined(self, given: Sequence[Window], made: Made, before: Shown) -> Joined:
        complete = all(each.complete for each in given) and self._seen == self._signature(before.segments)
        spans = sorted(span for each in given if not each.shown.left_out for span in each.spans)
        return Joined(rounds.showing_of(given, made, self._gathered, complete), tuple(spans))

    @property
    def busy(self) -> bool:
        return self._round is not None

    def taken_dropped(self) -> int:
        found, self._n_told = self._asker.n_dropped - self._n_told, self._asker.n_dropped
        return found

    def close(self) -> None:
        self._asker.close()


class _Pending(Exception):
    """A question without an answer yet."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.id)
        self.question = question


class _Round:
    """A round under way, run again with each answer."""

    def __init__(self, given: Given, asker: Asker, put: Callable[[Question], None], now: float) -> None:
        self.windows, self.number = given.windows, given.number
        self._given, self._asker, self._put = given, asker, put
        self._begun_at = self._asked_at = now
        self._open: Question | None = None
        self._known: dict[str, Replies] = {}
        """By the id of a question."""

    def step(self, now: float) -> Made | None:
        """What the round has made, once it is through; raises Refused."""
        if self._open is not None:
            found = self._asker.poll(0.0)
            if found is None:
                if now - self._asked_at >= REPEAT_S:
                    self._put(self._open)  # samplers look again for an answer that went astray
                    self._asked_at = now
                return None
            self._known[self._open.id] = {j: answer.values for j, answer in found.items()}
        try:
            return rounds.made(self._given, self._ask)
        except _Pending as pending:
            self._put(pending.question)
            self._open, self._begun_at, self._asked_at = pending.question, now, now
            return None

    def _ask(self, question: Question) -> Replies:
        if question.id not in self._known:
            raise _Pending(question)
        return self._known[question.id]

    def is_late(self, now: float) -> bool:
        return now - self._begun_at >= PATIENCE_S


def _is_new(before: tuple[int, int, bool], now: tuple[int, int, bool]) -> bool:
    segment, n_draws, complete = before
    return now[0] != segment or now[2] != complete or now[1] >= GROWTH * max(n_draws, 1)


def _left_out(each: Window) -> Window:
    shown = each.shown._replace(left_out=True)
    return Window(shown, each.spans, False, None, each.n_dead_lettered)
