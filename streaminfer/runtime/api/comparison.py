"""Combiners compared on the draws that are on the bus now. Nothing there is changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.bus.protocol import Bus
from streaminfer.combining import answering, rounds
from streaminfer.combining.answering import CannotAnswer
from streaminfer.combining.part import WEIGHTS, Refused
from streaminfer.combining.questions import LOG_LIKELIHOOD, Answer, Question
from streaminfer.combining.rounds import Given, Made, Replies, Round
from streaminfer.combining.windows import Window, windows
from streaminfer.models.model import Matrix, Vector
from streaminfer.runtime import topic_identity
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.runtime.reading.span_events import Removed
from streaminfer.runtime.sampling.segment_work import SegmentRows
from streaminfer.sampling import flat
from streaminfer.sampling.choices.combine import ASKING, BY, KERNELS, WHOLE
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.shown import Combination
from streaminfer.sampling.settings import Combine, Settings
from streaminfer.spec import Spec
from streaminfer.tables.draws import sampled, segment_at
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas

QUESTIONS: Final = {"variational": rounds.STEPS, "weierstrass": rounds.ROUNDS}
"""By combiner, how many it asks before the one of the correction."""
WAIT_S: Final = 0.05
"""Seconds between looks at rows that another process reads."""

Tell = Callable[[str], None]
"""Takes a line about work under way."""


class NoSuchCombiner(ValueError):
    """A name that is none of a combiner."""


class NotCombined(ValueError):
    """A spec whose draws are of one posterior."""


class TooFewDraws(Exception):
    """Subposteriors that cannot be combined yet, and why."""


class Choice(NamedTuple):
    """A combiner, and the weights of an average."""

    by: str
    weights: str | None = None

    @property
    def name(self) -> str:
        """As `choices` reads it."""
        return self.by if self.weights in {None, "full"} else f"{self.by}:{self.weights}"


ALL: Final = tuple(Choice(by, w) for by in BY for w in (WEIGHTS if by == "average" else (None,)))
"""The slow ones last."""
FIRST: Final = (Choice("average", "full"), Choice("semiparametric"))
"""Whose correction is tried after that of the spec's own combiner."""


def choices(names: str) -> list[Choice]:
    """`all`, or names separated by commas; raises NoSuchCombiner."""
    known = {each.name: each for each in sorted(ALL, key=lambda each: each.by in ASKING)}
    if names == "all":
        return list(known.values())
    found = []
    for name in names.split(","):
        plain = name.strip().removesuffix(":full")
        if plain not in known:
            raise NoSuchCombiner(f"must be all, or some of {', '.join(known)} (got {name.strip()!r})")
        if known[plain] not in found:
            found.append(known[plain])
    return found


class Difference(NamedTuple):
    """Of means and deviations from those that they are compared with."""

    shift: float
    """The largest over parameters, in deviations of what it is compared with."""
    least: float
    """The smallest deviation, as a multiple of that."""
    largest: float


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What combiners are compared with: a corrected posterior, or if there is none the average with full weights."""

    choice: Choice
    corrected: bool
    mean: Vector
    sd: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What a combiner made of the draws, or why it refused them."""

    choice: Choice
    seconds: float
    """Until it has combined, without the correction."""
    refused: str = ""
    plain: Made | None = None
    corrected: Made | None = None
    """None without the exact density."""

    @property
    def said(self) -> Combination | None:
        """With k-hat, if that is known."""
        best = self.corrected or self.plain
        return None if best is None else best.combination

    @property
    def is_reliable(self) -> bool | None:
        """Whether its correction is; None if it was not corrected."""
        return None if self.corrected is None else self.corrected.combination.corrected


class Comparison:
    """The windows of all subposteriors as they are now, and rows for the exact density.

    Raises NotCombined, NoSampler and UnknownTopic; and TooFewDraws if there is nothing to combine.
    """

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas, tell: Tell) -> None:
        self._spec, self._bus, self._schemas, self._tell = spec, bus, schemas, tell
        self._settings, self._how = settings_of(spec)
        with closing(Shards(spec, bus, schemas)) as source:
            newest = source.catch_up()
        if newest is None:
            raise TooFewDraws("")
        self.windows = self._windows(newest)
        self._rows: dict[int, Matrix] = {}
        self._known: dict[Choice, Compared] = {}
        self.without: str = ""
        """Why there is no exact density; empty if there is one."""
        self._read_rows(newest)

    def _windows(self, newest: Snapshot) -> list[Window]:
        settings, target = self._settings, self._spec.target
        size = flat.size(target.shapes)
        gathered = Gathering(settings, size)
        with closing(DrawsReader(self._spec, settings, size, self._bus, self._schemas)) as reader:
            while not reader.at_end():
                self._tell("reads draws")
                for unit, draws, _ in reader.poll(1.0):
                    gathered.take(unit, draws)
        segments = sampled(newest).shown.segments
        found = windows(gathered, segments, target, self._how.window, settings.subposteriors)
        lacking = [each for each in found if each.part is None and not each.empty]
        if any(each.part is not None for each in found) and self._how.missing == "leave_out":
            return [replace(each, shown=each.shown._replace(left_out=each in lacking)) for each in found]
        short = lacking or ([] if any(each.part is not None for each in found) else found)
        if short:
            raise TooFewDraws("\n".join(f"subposterior {each.shown.subposterior}: {each.shown.why}" for each in short))
        return found

    def _read_rows(self, newest: Snapshot) -> None:
        """Of every subposterior that has draws, from the log."""
        if self._settings.source == "stream":
            self.without = "inference.source: stream keeps no events"
        elif not hasattr(self._spec.target, "log_likelihood"):
            self.without = "the model has no log_likelihood"
        else:
            topic_id = topic_identity.check(self._spec, self._bus, [newest])
            for each in self.windows:
                if each.part is not None and not self.without:
                    self._read(each, newest, topic_id)

    def _read(self, each: Window, newest: Snapshot, topic_id: str) -> None:
        j = each.shown.subposterior
        segment = segment_at(newest, j, each.shown.segment, each.spans)
        share, target = (j, self._settings.subposteriors), self._spec.target
        with closing(SegmentRows(self._spec, self._bus, target, share, segment, topic_id, self._schemas)) as rows:
            try:
                while not rows.step(0.5):
                    self._tell(f"reads the events of subposterior {j}: {rows.progress}")
                    if rows.waits:
                        time.sleep(WAIT_S)
            except Removed as error:
                self.without = f"events of subposterior {j} are gone from the log: {error}"
                return
            found = rows.mapped()
            n_events = 0 if rows.about is None else rows.about.n_events
        if n_events != each.shown.n_events:
            had = f"its draws are of {each.shown.n_events:,}, the log has {n_events:,}"
            self.without = f"events of subposterior {j} are not those that were drawn from: {had}"
            return
        self._rows[j] = found

    @property
    def n_events(self) -> int:
        return sum(each.shown.n_events for each in self.windows if each.part is not None)

    def reference(self, chosen: Sequence[Choice]) -> Reference:
        """A correction that is reliable: of the spec's own combiner, or another that is quick. Raises Refused."""
        own = Choice(self._how.by, self._how.weights)
        quick = [each for each in (own, *FIRST, *chosen) if each.by not in ASKING]
        for choice in dict.fromkeys(quick):
            found = None if self.without else self.of(choice)
            if found is not None and found.corrected is not None and found.is_reliable:
                return Reference(choice, True, *_moments(found.corrected))
        plain = self.of(FIRST[0])
        if plain.plain is None:
            raise Refused(plain.refused)
        return Reference(FIRST[0], False, *_moments(plain.plain))

    def of(self, choice: Choice) -> Compared:
        """What a combiner makes of the draws; the same if it is asked for again."""
        if choice not in self._known:
            self._known[choice] = self._made(choice)
        return self._known[choice]

    def _made(self, choice: Choice) -> Compared:
        began = time.perf_counter()
        if why := self._unfit(choice.by):
            return Compared(choice, 0.0, why)
        how = replace(
            self._how,
            by=choice.by,
            weights=choice.weights,
            bandwidth=self._how.bandwidth if choice.by in KERNELS else None,
        )
        self._tell(f"{choice.name}: combines")
        settings = self._settings
        given = Given(self.windows, self._spec.target, how, settings.subposteriors, settings.seed, 1)
        try:
            begun = Round(given, _Answers(self._spec.target, self._rows, settings, choice.name, self._tell).ask)
            seconds = time.perf_counter() - began
            plain = begun.plain()
            return Compared(choice, seconds, "", plain, None if self.without else begun.corrected())
        except (Refused, CannotAnswer) as error:
            return Compared(choice, time.perf_counter() - began, str(error))

    def _unfit(self, by: str) -> str:
        """Why a combiner cannot be tried; empty if it can."""
        missing = next((each.shown for each in self.windows if each.part is None), None)
        if missing is not None and by in WHOLE:
            return f"needs draws of every subposterior, and {missing.subposterior} has none: {missing.why}"
        if by in ASKING and self.without:
            return f"asks for densities, and there are none: {self.without}"
        if by in ASKING and not hasattr(self._spec.target, ASKING[by]):
            return f"needs {ASKING[by]}, which the model does not have"
        return ""


class _Answers:
    """Answers in this process, with a line about each part of the work."""

    def __init__(self, target: Any, rows: dict[int, Matrix], settings: Settings, name: str, tell: Tell) -> None:
        self._target, self._rows, self._count, self._tell = target, rows, settings.subposteriors, tell
        self._name, self._n, self._began = name, 0, time.monotonic()

    def ask(self, question: Question) -> Replies:
        self._n += 1
        asked = [each.subposterior for each in question.shares]
        found = {}
        for place, j in enumerate(asked):
            for answer in self._slices(question, j):
                if answer is None:
                    self._tell(self._line(question, f"subposterior {place + 1} of {len(asked)}"))
                else:
                    found[j] = answer.values
        return found

    def _slices(self, question: Question, j: int) -> Iterator[Answer | None]:
        """None for each part of the work, then the answer."""
        answer = yield from answering.slices(self._target, self._rows[j], question, j, self._count)
        yield answer

    def _line(self, question: Question, where: str) -> str:
        seconds = f"{time.monotonic() - self._began:.0f} s"
        if question.kind == LOG_LIKELIHOOD:
            return f"{self._name}: the exact density at {len(question.theta):,} points, {where}, {seconds}"
        total = QUESTIONS.get(self._name, self._n)
        return f"{self._name}: question {self._n} of {total}, {where}, {seconds}"


def settings_of(spec: Spec) -> tuple[Settings, Combine]:
    """How a spec's subposteriors are sampled and combined; raises NotCombined."""
    method, settings = spec.inference.method, spec.sampling
    if settings is None:
        raise NotCombined(
            f"inference.method: must be a sampler, such as sgld, with subposteriors: 2 or more (got {method})"
        )
    if settings.combine is None:
        raise NotCombined(
            "inference.subposteriors: must be 2 or more, as there is nothing to combine otherwise "
            f"(got {settings.subposteriors}); a spec with another number of them needs another name"
        )
    return settings, settings.combine


def difference(made: Made, reference: Reference) -> Difference:
    """How far a combination is from another; a parameter that does not vary counts only by its mean."""
    mean, sd = _moments(made)
    varies = reference.sd > 0
    away = np.abs(mean - reference.mean)[varies] / reference.sd[varies]
    ratios = sd[varies] / reference.sd[varies]
    return Difference(*(float(of(each, initial=start)) for of, each, start in (
        (np.max, away, 0.0), (np.min, ratios, np.inf), (np.max, ratios, 0.0),
    )))  # fmt: skip


def _moments(made: Made) -> tuple[Vector, Vector]:
    return made.statistics.mean, np.asarray(np.sqrt(made.statistics.variances), dtype=np.float64)
