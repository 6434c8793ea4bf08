"""Samplers answer: who has chain 0 of a subposterior says what its events make of the parameters in a question.

An answer is a function of the question and the log, so it does not matter who gives it, how often, or when.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any

from streaminfer.bus.protocol import Bus, Member
from streaminfer.combining import answering
from streaminfer.combining.answering import CannotAnswer, Slices
from streaminfer.combining.questions import Answer, Asked, Question
from streaminfer.models.model import Matrix
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.following.assembled import AssembledReader
from streaminfer.runtime.pooling.asking import AnswersReader
from streaminfer.runtime.pooling.cut_off import window_of_all
from streaminfer.runtime.reading.span_events import Removed
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.sampling.segment_work import SegmentRows, SegmentWork
from streaminfer.runtime.sampling.unit import OwnedUnit
from streaminfer.runtime.telemetry import SamplerMetrics
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.tables import draws
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas
from streaminfer.wire.sampled.questions import Assembler

log = logging.getLogger(__name__)


def can_be_asked(settings: Settings, target: Any) -> bool:
    """Whether a spec has questions: several subposteriors of a model with densities."""
    return settings.combine is not None and hasattr(target, "log_likelihood")


class QuestionsReader(AssembledReader[Question]):
    """Follows the topic; only the newest question counts."""

    def __init__(self, spec: Spec, settings: Settings, bus: Bus, schemas: Schemas) -> None:
        partitions = spec.data.partitions or len(bus.ends(names.data_topic(spec)))
        counts = (settings.subposteriors, partitions, int(spec.target.dimension))
        super().__init__(bus, names.topic(spec, "questions"), {0: Assembler(spec.fingerprint, *counts, schemas).add})

    def newest(self) -> Question | None:
        """The newest that has come since the last call, maybe one that was there before."""
        came = self.poll(0.0)
        return came[-1].value if came else None


class _Reply:
    """The way to one answer: is it on the topic, the rows, the sums, the commit. It outlives an owner of the unit."""

    def __init__(self, question: Question, share: Asked, unit: OwnedUnit) -> None:
        self.question, self.share, self.unit = question, share, unit
        self.looked = self.done = False
        self.rows: SegmentRows | None = None
        """If the chains do not have them."""
        self.slices: Slices[Answer] | None = None
        self.answer: Answer | None = None

    def taken_over(self, unit: OwnedUnit) -> None:
        """After an error nobody knows whether the answer was committed."""
        if unit is not self.unit:
            self.unit, self.looked, self.done = unit, False, False

    def close(self) -> None:
        if self.rows is not None:
            self.rows.close()
            self.rows = None


class Answering:
    """All answers that one process owes."""

    def __init__(
        self, spec: Spec, settings: Settings, bus: Bus, clock: Callable[[], float], metrics: SamplerMetrics,
        schemas: Schemas,
    ) -> None:  # fmt: skip
        self._spec, self._settings, self._bus, self._clock = spec, settings, bus, clock
        self._target, self._metrics, self._schemas, self._teller = spec.target, metrics, schemas, Teller(log)
        self._questions = QuestionsReader(spec, settings, bus, schemas)
        self._question: Question | None = None
        self._replies: dict[int, _Reply] = {}
        """By subposterior, to the newest question."""
        self._rows: dict[int, tuple[Segment, Matrix]] = {}
        """By subposterior, those of a segment that the chains do not have: more questions may be about it."""

    def follow(self) -> None:
        """Takes up a new question. One that is repeated is answered again only if its answer is not on the topic."""
        found = self._questions.newest()
        if found is None:
            return
        if self._question is None or found.id != self._question.id:
            log.info("question %s: %s of %d vectors", found.id[:8], found.kind, len(found.theta))
            self._leave_all()
        self._question = found
        for reply in self._replies.values():
            reply.looked = reply.done = False

    def work(
        self,
        units: Iterable[OwnedUnit],
        works: Mapping[int, SegmentWork],
        newest: Snapshot,
        member: Member,
        seconds: float,
    ) -> bool:
        """Works on what these units owe for some time; whether there is more to do now."""
        began, busy = self._clock(), False
        for reply in self._owed(units):
            waits = False
            while not reply.done and not waits and self._clock() < began + seconds:
                waits = not self._step(reply, works.get(reply.share.subposterior), newest, member)
            busy = busy or not (reply.done or waits)
        return busy

    def _owed(self, units: Iterable[OwnedUnit]) -> list[_Reply]:
        question = self._question
        if question is None:
            return []
        owed = []
        for unit in units:
            j = unit.unit.subposterior
            share = question.share_of(j) if unit.unit.chain == 0 else None
            if share is not None:
                reply = self._replies.setdefault(j, _Reply(question, share, unit))
                reply.taken_over(unit)
                owed.append(reply)
        return [reply for reply in owed if not reply.done]

    def _step(self, reply: _Reply, work: SegmentWork | None, newest: Snapshot, member: Member) -> bool:
        """Does a part; False if nothing can be done before another process or chain has."""
        began, moved = self._clock(), True
        try:
            if not reply.looked:
                reply.looked, reply.done = True, self._is_answered(reply)
            elif reply.answer is not None:
                self._commit(reply, reply.answer, member)
            elif reply.slices is not None:
                next(reply.slices)
            else:
                moved = self._begin(reply, work, newest)
        except StopIteration as end:
            reply.answer = end.value
        except (Removed, CannotAnswer) as error:
            self._refuse(reply, str(error))
        self._metrics.answer_seconds.inc(max(0.0, self._clock() - began))
        return moved

    def _is_answered(self, reply: _Reply) -> bool:
        """Whether the answer is on the topic; its owner is the only one who could change that."""
        newest, j = "", reply.share.subposterior
        with closing(AnswersReader(self._spec, self._settings, self._bus, self._schemas, [j])) as reader:
            while not reader.at_end():
                for _, answer, _ in reader.poll(0.5):
                    newest = answer.question
        return newest == reply.question.id

    def _begin(self, reply: _Reply, work: SegmentWork | None, newest: Snapshot) -> bool:
        """Starts on the sums once the rows are there; False if others read them."""
        share, rows = reply.share, None
        j, wanted = share.subposterior, draws.segment_at(newest, share.subposterior, share.segment, share.spans)
        if wanted.cut_off is None and window_of_all(self._spec) is not None:
            return self._is_behind(reply, newest)
        if work is not None and work.segment == wanted:
            if work.density is None:
                return False
            rows = work.density.rows
        elif j in self._rows and self._rows[j][0] == wanted:
            rows = self._rows[j][1]
        else:
            rows = self._read(reply, wanted, newest)
            if rows is None:
                return reply.done or reply.rows is None or not reply.rows.waits
            self._rows[j] = (wanted, rows)
        reply.close()
        arguments = (self._target, rows, reply.question, j, self._settings.subposteriors)
        reply.slices = answering.slices(*arguments)
        return True

    def _is_behind(self, reply: _Reply, newest: Snapshot) -> bool:
        """Of a segment whose cut-off no snapshot here says: that may come, unless the segment is over."""
        share, there = reply.share, draws.segment_of(newest, reply.share.subposterior)
        if there is None or there.number < share.segment:
            return False
        self._refuse(reply, "its window is over, and nobody knows when it began")
        return True

    def _read(self, reply: _Reply, wanted: Segment, newest: Snapshot) -> Matrix | None:
        """The rows of a segment that no chain here works on, from scratch or the log; None before all are there."""
        if reply.rows is None:
            topic_id, share = topic_identity.check(self._spec, self._bus, [newest]), reply.share
            of = (share.subposterior, self._settings.subposteriors)
            arguments = (self._spec, self._bus, self._target, of, wanted, topic_id, self._schemas)
            reply.rows = SegmentRows(*arguments)
        if not reply.rows.step(0.0):
            return None
        state, about = reply.unit.state, reply.rows.about
        changed = about is not None and state.digest not in {"", about.digest}
        if changed and (state.segment, state.frontier) == (reply.share.segment, reply.share.spans):
            self._refuse(reply, "the log no longer gives its events")
            return None
        return reply.rows.mapped()

    def _refuse(self, reply: _Reply, why: str) -> None:
        """Whoever has asked will come with another question."""
        share, of = reply.share, reply.question.id[:8]
        self._teller.tell(
            f"question {of} about segment {share.segment} of subposterior {share.subposterior} has no answer: {why}"
        )
        reply.close()
        reply.done = True

    def _commit(self, reply: _Reply, answer: Answer, member: Member) -> None:
        reply.unit.publish(answer, member)
        reply.done = True
        self._metrics.answers.inc()

    def leave(self, subposterior: int) -> None:
        """Another process answers for it now, and may want the rows that this one reads."""
        self._rows.pop(subposterior, None)
        reply = self._replies.pop(subposterior, None)
        if reply is not None:
            reply.close()

    def _leave_all(self) -> None:
        for reply in self._replies.values():
            reply.close()
        self._replies.clear()

    def close(self) -> None:
        self._leave_all()
        self._questions.close()
