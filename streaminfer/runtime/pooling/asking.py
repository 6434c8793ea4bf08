"""Questions to those who hold the data, and the answers to them as they come."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus, Output
from streaminfer.combining.questions import Answer, Question
from streaminfer.runtime import names
from streaminfer.runtime.following.assembled import AssembledReader
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.sampled import answers, questions


class AnswersReader(AssembledReader[Answer]):
    """Follows what some subposteriors answer, from the start of the topic: chain 0 of each answers for it."""

    def __init__(
        self, spec: Spec, settings: Settings, bus: Bus, schemas: Schemas, subposteriors: list[int] | None = None
    ) -> None:
        chosen = range(settings.subposteriors) if subposteriors is None else subposteriors
        dimension = int(spec.target.dimension)
        adders = {
            unit: answers.Assembler(spec.fingerprint, Unit.numbered(unit, settings), dimension, schemas).add
            for unit in chosen
        }
        super().__init__(bus, names.topic(spec, "answers"), adders)


class Asker:
    """Asks one question after the other, each open until the next, and gathers the answers to it.

    Whoever asks writes the records by the combiner's writer. A question that is asked again, also by another process,
    finds the answers that are there. To write it once more heals whatever became of an answer.
    """

    def __init__(self, spec: Spec, settings: Settings, bus: Bus, schemas: Schemas) -> None:
        self._spec, self._bus, self._schemas = spec, bus, schemas
        self._reader = AnswersReader(spec, settings, bus, schemas)
        self._open: Question | None = None
        self._newest: dict[int, Answer] = {}
        """By subposterior, whatever it is an answer to: its question may be asked next."""
        self.n_dropped = 0
        """Records and answers that are not of the question that was open: of another, of another segment or size.

        Those that were there before are not among them: each owner after the other reads them.
        """
        self._remember()

    def _remember(self) -> None:
        """Reads the answers that are there, one of which may be to the question that comes first."""
        while not self._reader.at_end():
            for _, answer, _ in self._reader.poll(0.5):
                self._newest[answer.subposterior] = answer

    @property
    def open(self) -> Question | None:
        """The question whose answers are gathered."""
        return self._open

    def outputs(self, question: Question) -> list[Output]:
        """The records of a question, which is open from now on; they belong in one transaction. Raises BadValue."""
        records = questions.encode(question, self._spec.fingerprint, self._bus.max_record_bytes, self._schemas)
        self._open = question
        topic = names.topic(self._spec, "questions")
        return [Output(topic, data, key, 0) for key, data in records]

    def poll(self, timeout: float) -> dict[int, Answer] | None:
        """The answers to the open question by subposterior, once all of them are there; None before."""
        came = self._reader.poll(timeout)
        self.n_dropped += len(self._reader.bad)
        question = self._open
        for _, answer, _ in came:
            self._newest[answer.subposterior] = answer
            if question is not None and not answer.fits(question):
                self.n_dropped += 1
        if question is None:
            return None
        asked = [share.subposterior for share in question.shares]
        found = {j: self._newest[j] for j in asked if j in self._newest and self._newest[j].fits(question)}
        return found if len(found) == len(asked) else None

    def close(self) -> None:
        self._reader.close()
