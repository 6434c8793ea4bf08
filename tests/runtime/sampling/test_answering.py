"""Samplers answer questions between the steps of their chains: exactly, once, and again the same."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import BusError, Output
from streaminfer.combining.answering import answer
from streaminfer.combining.questions import KINDS, Answer, Asked, Question
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.api.snapshot import events_of
from streaminfer.runtime.pooling.asking import Asker
from streaminfer.runtime.sampling import sampler as samplers
from streaminfer.runtime.service import Service
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.units import Unit
from streaminfer.tables.draws import segment_of
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.sampled import answers
from tests.runtime.sampling.rig import LOGISTIC, SamplerRig, sampled
from tests.simulation.bus import Faults

RNG = np.random.default_rng(3)
ROWS = [
    {"a": float(a), "b": float(b), "t": int(t)}
    for (a, b), t in zip(RNG.normal(size=(80, 2)).round(4), RNG.integers(0, 2, 80), strict=True)
]
QUIET = {"by": "average", "correct": "none"}
"""A combiner that asks nothing itself."""
SHARED = {"model": LOGISTIC, "data": {"partitions": 4}, "subposteriors": 2, "chains": 2, "combine": QUIET}


class AskingRig(SamplerRig):
    """Rows on all partitions, and who asks about them."""

    def __init__(self, tick: float = 0.0, **changes: Any) -> None:
        super().__init__(sampled(**{**SHARED, **changes}), tick)
        self.asker = Asker(self.spec, self.settings, self.bus, DECLARED)
        self.sent: dict[int, list[dict[str, Any]]] = {}

    def fill(self, rows: list[dict[str, Any]]) -> None:
        for partition in range(4):
            self.sent.setdefault(partition, []).extend(rows[partition::4])
            self.send(*rows[partition::4], partition=partition)

    def complete(self, segment: int, *services: Service) -> None:
        """Until all chains of all subposteriors have all draws of a segment."""
        for _ in range(400):
            self.run(*services, rounds=1)
            found = self.newest()
            shown = None if found is None or found.payload.sampled is None else found.payload.sampled.shown
            if shown is not None and shown.complete and all(each.number == segment for each in shown.segments):
                return
        raise AssertionError(f"segment {segment} is not complete")

    def shares(self) -> tuple[Asked, ...]:
        """Of the segments that are fixed now."""
        newest = self.newest()
        assert newest is not None
        found = [segment_of(newest, j) for j in range(2)]
        return tuple(Asked(j, each.number, each.spans) for j, each in enumerate(found) if each is not None)

    def question(self, kind: str, n: int = 300, **changes: Any) -> Question:
        bandwidth = np.full(3, 0.3) if kind == "refine" else np.empty(0)
        fields: dict[str, Any] = {"theta": np.random.default_rng(9).normal(size=(n, 3)), "shares": self.shares()}
        return Question(**{"kind": kind, "bandwidth": bandwidth, "seed": 1, **fields, **changes})

    def ask(self, question: Question) -> None:
        self.bus.publish(self.asker.outputs(question))

    def answers(self, *services: Service, rounds: int = 50) -> dict[int, Answer]:
        for _ in range(rounds):
            self.run(*services, rounds=1)
            found = self.asker.poll(0.0)
            if found is not None:
                return found
        raise AssertionError("there is no answer")

    def rows(self, share: Asked) -> Matrix:
        """What the model needs of the events of a share."""
        events = [row for span in share.spans for row in self.sent[span.partition][span.start : span.end]]
        return np.ascontiguousarray(self.spec.target.rows(events_of(self.spec.event_fields, events).numbers))

    def blocks(self, unit: int) -> list[Draws]:
        place = Unit.numbered(unit, self.settings)
        return [each for each in self.draws() if (each.subposterior, each.chain) == place[:2]]

    def check(self, question: Question, found: dict[int, Answer]) -> None:
        assert list(found) == [0, 1]
        for share in question.shares:
            wanted = answer(self.spec.target, self.rows(share), question, share.subposterior, 2)
            np.testing.assert_array_equal(found[share.subposterior].values, wanted.values)
            assert found[share.subposterior].n_events == wanted.n_events


def complete(**changes: Any) -> tuple[AskingRig, list[Service]]:
    """A rig whose first segment has all its draws."""
    rig = AskingRig(**changes)
    rig.fill(ROWS)
    services: list[Service] = [rig.master(), rig.sampler()]
    rig.complete(0, *services)
    return rig, services


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_samplers", [1, 3])
def test_answers_are_exact(kind: str, n_samplers: int) -> None:
    rig = AskingRig()
    rig.fill(ROWS)
    services: list[Service] = [rig.master(), *(rig.sampler() for _ in range(n_samplers))]
    rig.complete(0, *services)
    question = rig.question(kind)
    rig.ask(question)
    rig.check(question, rig.answers(*services))
    assert rig.asker.n_dropped == 0
    assert rig.value("sampler_answers_total") == 2
    wanted = {"log_likelihood": (300,), "gradient": (300, 3), "refine": (300, 3)}
    assert rig.asker.poll(0.0)[1].values.shape == wanted[kind]  # type: ignore[index]


def test_likelihoods_have_no_prior() -> None:
    rig, services = complete()
    question = rig.question("log_likelihood", 20)
    rig.ask(question)
    total = sum(each.values for each in rig.answers(*services).values())
    rows = np.concatenate([rig.rows(share) for share in question.shares])
    np.testing.assert_allclose(total, rig.spec.target.log_likelihood(question.theta, rows).sum(axis=1), rtol=1e-12)


def test_a_question_in_many_records() -> None:
    """Answers are as large as the question."""
    rig, services = complete()
    question = rig.question("gradient", 60_000)
    rig.ask(question)
    assert len(rig.records("questions")) > 1
    rig.check(question, rig.answers(*services))
    assert len(rig.records("answers", 1)) > 1


def test_chains_go_on_while_there_are_questions() -> None:
    """Neither waits for the other, and draws are what they always are."""
    calm, rig = (AskingRig(tick=0.01, draws=200) for _ in range(2))
    for each in (calm, rig):
        each.fill(ROWS)
    calm.complete(0, calm.master(), calm.sampler())
    services = [rig.master(), rig.sampler()]
    rig.run(*services, rounds=6)
    question = rig.question("log_likelihood", 1500)
    rig.ask(question)
    before = sum(len(rig.records("draws", unit)) for unit in range(4))
    rig.check(question, rig.answers(*services))
    newest = rig.newest()
    assert newest is not None
    assert newest.payload.sampled is not None
    assert not newest.payload.sampled.shown.complete
    assert sum(len(rig.records("draws", unit)) for unit in range(4)) > before
    rig.complete(0, *services)
    for unit in range(4):
        one, other = (np.concatenate([b.values for b in each.blocks(unit)]) for each in (calm, rig))
        np.testing.assert_array_equal(one, other)


def test_the_segment_before_is_read_again() -> None:
    rig, services = complete()
    before = rig.question("log_likelihood")
    rig.fill(ROWS[:40])
    rig.complete(1, *services)
    rig.ask(before)
    rig.check(before, rig.answers(*services))
    now = rig.question("log_likelihood")
    assert [share.segment for share in now.shares] == [1, 1]
    rig.ask(now)
    rig.check(now, rig.answers(*services))
    for service in services:
        service.close()
    rig.ask(before)
    rig.check(before, rig.answers(rig.master(), rig.sampler()))


def test_a_segment_that_the_log_no_longer_gives_has_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    rig, services = complete()
    before = rig.question("log_likelihood")
    rig.fill(ROWS[:40])
    rig.complete(1, *services)
    rig.remove_before(3, partition=1)
    with caplog.at_level(logging.WARNING):
        rig.ask(before)
        rig.run(*services, rounds=10)
    assert rig.asker.poll(0.0) is None
    assert sum("has no answer: partition 1 of the segment starts at 0" in each for each in caplog.messages) == 1
    assert len(rig.records("answers", 0)) == 1
    assert len(rig.records("answers", 1)) == 0
    now = rig.question("log_likelihood")
    rig.ask(now)
    rig.check(now, rig.answers(*services))


def test_a_repeated_question_is_not_computed_again() -> None:
    rig, services = complete()
    question = rig.question("refine", 10)
    rig.ask(question)
    first = rig.answers(*services)
    rig.ask(question)
    rig.run(*services, rounds=5)
    for service in services:
        service.close()
    rig.run(rig.master(), rig.sampler(), rounds=10)
    assert rig.value("sampler_answers_total") == 2
    assert [len(rig.records("answers", j)) for j in range(2)] == [1, 1]
    with closing(Asker(rig.spec, rig.settings, rig.bus, DECLARED)) as other:
        other.poll(0.0)
        other.outputs(question)
        found = other.poll(0.0)
        assert found is not None
        assert {j: each.values.tobytes() for j, each in found.items()} == {
            j: each.values.tobytes() for j, each in first.items()
        }
        assert other.n_dropped == 0


def test_an_answer_that_was_lost_is_given_again_to_a_question_that_is_repeated() -> None:
    rig, services = complete()
    question = rig.question("gradient", 10)
    rig.ask(question)
    rig.check(question, rig.answers(*services))
    topic = names.topic(rig.spec, "answers")
    rig.bus.publish([Output(topic, b"junk", b"part-0", 0)])
    rig.broker.compact(topic)
    rig.asker.close()
    rig.asker = Asker(rig.spec, rig.settings, rig.bus, DECLARED)
    rig.ask(question)
    rig.check(question, rig.answers(*services))
    assert rig.asker.n_dropped == 0, "what was there before is told, and counted by whoever saw it come"


@pytest.mark.parametrize("key", [b"part-0", b"part-1", b"junk"])
@pytest.mark.parametrize("value", [b"junk", None])
def test_junk_is_ignored(key: bytes, value: bytes | None) -> None:
    rig, services = complete()
    junk = [Output(names.topic(rig.spec, short), value, key, 0) for short in ("questions", "answers")]
    rig.bus.publish(junk)
    question = rig.question("log_likelihood", 10)
    rig.ask(question)
    rig.bus.publish(junk[:1])
    rig.check(question, rig.answers(*services))


def test_the_newest_question_wins() -> None:
    rig, services = complete()
    first, second = (rig.question("refine", 10, round=r) for r in (1, 2))
    rig.ask(first)
    rig.ask(second)
    rig.check(second, rig.answers(*services))
    assert rig.value("sampler_answers_total") == 2
    rig.ask(first)
    rig.check(first, rig.answers(*services))


def test_answers_to_others_are_dropped_and_counted() -> None:
    rig, _ = complete()
    question = rig.question("log_likelihood", 4)
    rig.ask(question)
    right = [answer(rig.spec.target, rig.rows(share), question, share.subposterior, 2) for share in question.shares]
    fields = {"question": question.id, "kind": "log_likelihood", "subposterior": 0, "segment": 0, "n_events": 1}
    wrong: list[dict[str, Any]] = [
        {"question": "0" * 32}, {"segment": 1}, {"values": np.zeros(3)},
        {"kind": "gradient", "values": np.zeros((4, 3))},
    ]  # fmt: skip

    def say(given: Answer, fingerprint: str = rig.spec.fingerprint) -> None:
        ((key, data),) = answers.encode(given, fingerprint, 1 << 20)
        rig.bus.publish([Output(names.topic(rig.spec, "answers"), data, key, given.subposterior)])

    say(right[1])
    for number, changes in enumerate(wrong, 1):
        say(Answer(**{**fields, "values": np.zeros(4), **changes}))
        assert rig.asker.poll(0.0) is None
        assert rig.asker.n_dropped == number
    say(right[0], "another")
    assert rig.asker.poll(0.0) is None
    assert rig.asker.n_dropped == 5
    say(right[0])
    rig.check(question, rig.asker.poll(0.0) or {})
    assert rig.asker.n_dropped == 5


class LosingCommits(Faults):
    """Every third commit takes effect and says that it has not, or the other way round."""

    def __init__(self) -> None:
        self.n = 0

    def before(self, operation: str) -> None:
        if operation == "commit":
            self.n += 1
            if self.n % 3 == 0:
                raise BusError("it had no effect")

    def after(self, operation: str) -> None:
        if operation == "commit" and self.n % 3 == 1:
            raise BusError("it took effect")


def test_commits_that_fail_give_one_answer() -> None:
    rig, (master, _) = complete()
    sampler = rig.sampler(LosingCommits())
    question = rig.question("gradient", 10)
    rig.run(master, rounds=30, seconds=1.0)  # the other sampler's session ends
    rig.ask(question)
    for _ in range(60):
        try:
            rig.run(sampler, rounds=1)
        except BusError:
            sampler.reset()
    rig.check(question, rig.asker.poll(0.0) or {})
    assert [len(rig.records("answers", j)) for j in range(2)] == [1, 1]


def test_specs_with_one_subposterior_have_no_questions() -> None:
    rig = SamplerRig(sampled(LOGISTIC))
    rig.send(*ROWS)
    rig.run_to(0, rig.master(), rig.sampler())
    assert names.topic(rig.spec, "questions") not in rig.bus.topics()
    assert samplers.ANSWERING == 0.25
