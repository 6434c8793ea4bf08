"""Questions and answers as records: they round-trip in one record or in parts, and what cannot be is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer.combining.questions import Question
from streaminfer.sampling.units import Span, Unit
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadFrame, BadValue, Damaged, WireError
from streaminfer.wire.sampled import answers, questions
from tests.wire.chain_messages import tightest
from tests.wire.messages import FINGERPRINT
from tests.wire.question_messages import (
    DIMENSION,
    JUST,
    SHARES,
    answer,
    answer_record,
    answers_reader,
    question,
    question_record,
    questions_reader,
)

TIGHT = tightest(lambda most: questions.encode(question(), FINGERPRINT, most))
TIGHT_ANSWER = tightest(lambda most: answers.encode(answer(), FINGERPRINT, most))


def asked(given: Question, max_bytes: int = 1 << 20) -> list[Question | None]:
    records = questions.encode(given, FINGERPRINT, max_bytes)
    assert all(len(key) + len(data) <= max_bytes for key, data in records)
    assert len({key for key, _ in records}) == len(records), "a compacted topic keeps one record of a key"
    held = questions_reader()
    return [held.add(key, data) for key, data in records]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        JUST,
        {**JUST, "kind": "gradient", "theta": np.arange(300.0).reshape(100, 3)},
        {"shares": SHARES[1:], "seed": 2**63 - 1, "round": 2**53},
    ],
    ids=["refine", "log_likelihood", "gradient", "one share"],
)
@pytest.mark.parametrize("max_bytes", [1 << 20, TIGHT + 24, TIGHT + 55])
def test_a_question_round_trips(changes: dict[str, Any], max_bytes: int) -> None:
    given = question(**changes)
    *before, last = asked(given, max_bytes)
    assert before == [None] * len(before)
    assert last is not None
    for name in ("kind", "shares", "seed", "round", "id"):
        assert getattr(last, name) == getattr(given, name)
    np.testing.assert_array_equal(last.theta, given.theta)
    np.testing.assert_array_equal(last.bandwidth, given.bandwidth)


@pytest.mark.parametrize(
    "changes", [{}, {"kind": "log_likelihood", "values": np.arange(2.0)}, {"n_events": 0, "values": np.zeros((1, 3))}]
)
@pytest.mark.parametrize("max_bytes", [1 << 20, TIGHT_ANSWER + 16, TIGHT_ANSWER + 31])
def test_an_answer_round_trips(changes: dict[str, Any], max_bytes: int) -> None:
    given, held = answer(**changes), answers_reader()
    records = answers.encode(given, FINGERPRINT, max_bytes)
    assert all(len(key) + len(data) <= max_bytes for key, data in records)
    *before, last = [held.add(key, data) for key, data in records]
    assert before == [None] * len(before)
    assert last is not None
    for name in ("question", "kind", "subposterior", "segment", "n_events"):
        assert getattr(last, name) == getattr(given, name)
    np.testing.assert_array_equal(last.values, given.values)


def test_an_answer_fits_its_question_alone() -> None:
    given = question()
    right = answer(question=given.id)
    assert right.fits(given)
    for changes in (
        {"question": "0" * 32}, {"kind": "gradient"}, {"subposterior": 2}, {"segment": 9}, {"values": np.zeros((3, 3))},
        {"values": np.zeros(2)},
    ):  # fmt: skip
        assert not answer(**{"question": given.id, **changes}).fits(given)


def test_numbers_that_are_not_finite_are_not_written() -> None:
    with pytest.raises(BadValue, match="a number of a question is not finite"):
        questions.encode(question(theta=np.full((2, 3), math.nan)), FINGERPRINT, 1 << 20)
    with pytest.raises(BadValue, match="a number of an answer is not finite"):
        answers.encode(answer(values=np.full((2, 3), math.inf)), FINGERPRINT, 1 << 20)


def _share(*spans: tuple[int, int, int], subposterior: int = 1, segment: int = 0) -> dict[str, Any]:
    return {
        "subposterior": subposterior,
        "segment": segment,
        "frontier": [Span(*span)._asdict() for span in spans],
    }


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"fingerprint": "x" * 1000}, f"fingerprint must be {FINGERPRINT} (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"id": "x" * 1000}, f"id must be 32 hexadecimal digits (got {'x' * 40!r})"),
    ({"kind": "prior" * 100}, "kind must be one of log_likelihood, gradient, refine (got 'priorpriorpriorprior')"),
    ({"kind": "gradient"}, "bandwidth must have at most 0 bytes (got 24)"),
    ({"seed": -1}, "seed must be 0 or more (got -1)"),
    ({"round": -1}, "round must be 0 to 2^53 (got -1)"),
    ({"n_vectors": 0}, "n_vectors must be 1 to 100000 (got 0)"),
    ({"n_vectors": 100_001}, "n_vectors must be 1 to 100000 (got 100001)"),
    ({"n_vectors": 3}, "48 bytes are not the 72 of 9 numbers"),
    ({"n_vectors": 1}, "theta must have at most 24 bytes (got 48)"),
    ({"shares": []}, "shares must be 1 to 2 (got 0)"),
    ({"shares": [_share()] * 3}, "shares must be 1 to 2 (got 3)"),
    ({"shares": [_share(), _share()]}, "shares must have rising subposteriors below 2 (got 1)"),
    ({"shares": [_share(subposterior=2)]}, "shares must have rising subposteriors below 2 (got 2)"),
    ({"shares": [_share(subposterior=-1)]}, "shares must have rising subposteriors below 2 (got -1)"),
    ({"shares": [_share(segment=-1)]}, "shares must have segments from 0 on (got -1)"),
    ({"shares": [_share((2, 0, 1))]}, "shares must have partitions of the subposterior (got 2)"),
    ({"shares": [_share((3, 0, 1), (1, 0, 1))]}, "shares must have different partitions in rising order (got 1)"),
    ({"shares": [_share((1, 2, 1))]}, "shares must have 0 <= start <= end <= 2^53 (got (2, 1))"),
    ({"shares": [_share((1, 0, 2**60))]}, f"shares must have 0 <= start <= end <= 2^53 (got (0, {2**60}))"),
    (
        {"shares": [_share((5, 0, 1))]},
        "shares must have partitions below 5 (got (Span(partition=5, start=0, end=1),))",
    ),
    ({"part": 1}, "part must be that of the key (got 1)"),
    ({"parts": 0}, "parts must be 1 to 9 (got 0)"),
    ({"parts": 10}, "parts must be 1 to 9 (got 10)"),
    ({"theta": bytes(40)}, "40 bytes are not the 48 of 6 numbers"),
    ({"theta": np.full(6, math.nan).tobytes()}, "a number is not finite"),
    ({"bandwidth": bytes(24)}, "bandwidth must be above 0 (got [0.0, 0.0, 0.0])"),
    ({"bandwidth": b""}, "0 bytes are not the 24 of 3 numbers"),
]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_questions_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    held = questions_reader()
    with pytest.raises(BadValue) as caught:
        held.add(*question_record(**changes))
    assert str(caught.value) == text
    assert held.add(*question_record()) is not None, "the next question is not refused"


@pytest.mark.parametrize("changes", [{"seed": 5}, {"round": 5}, {"theta": bytes(48)}, {"id": "0" * 32}], ids=str)
def test_a_question_with_the_id_of_another_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Damaged, match="its id is of another"):
        questions_reader().add(*question_record(**changes))


def test_every_field_is_refused_in_one_way_at_least() -> None:
    for record, wrong, topic in ((question_record(), WRONG, "questions"), (answer_record(), WRONG_ANSWERS, "answers")):
        assert {name for changes, _ in wrong for name in changes} == DECLARED.decode(topic, record[1]).keys()


WRONG_ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({"fingerprint": "x" * 1000}, f"fingerprint must be {FINGERPRINT} (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"question": ""}, "question must be 32 hexadecimal digits (got '')"),
    ({"kind": ""}, "kind must be one of log_likelihood, gradient, refine (got '')"),
    ({"kind": "log_likelihood"}, "values must have at most 16 bytes (got 48)"),
    ({"subposterior": 0}, "subposterior must be 1 (got 0)"),
    ({"segment": -1}, "segment must be 0 or more (got -1)"),
    ({"n_events": -1}, "n_events must be 0 to 2^53 (got -1)"),
    ({"n_vectors": 0}, "n_vectors must be 1 to 100000 (got 0)"),
    ({"n_vectors": 3}, "48 bytes are not the 72 of 9 numbers"),
    ({"part": 2}, "part must be that of the key (got 2)"),
    ({"parts": 7}, "parts must be 1 to 6 (got 7)"),
    ({"values": bytes(7)}, "7 bytes are not the 48 of 6 numbers"),
    ({"values": np.full(6, math.inf).tobytes()}, "a number is not finite"),
]


@pytest.mark.parametrize(("changes", "text"), WRONG_ANSWERS, ids=lambda value: str(value)[:40])
def test_answers_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    held = answers_reader()
    with pytest.raises(BadValue) as caught:
        held.add(*answer_record(**changes))
    assert str(caught.value) == text
    assert held.add(*answer_record()) is not None, "the next answer is not refused"


def test_questions_that_announce_too_much_are_refused() -> None:
    with pytest.raises(BadValue, match="n_vectors must fit 256 MiB"):
        questions.Assembler(FINGERPRINT, 2, 5, 1000).add(*question_record(n_vectors=99_999, parts=10_000))


@pytest.mark.parametrize("key", [None, b"", b"part-", b"part-01", b"part-10000", b"question", b"part-0\n"])
def test_other_keys_are_refused(key: bytes | None) -> None:
    for held, record in ((questions_reader(), question_record()), (answers_reader(), answer_record())):
        for data in (record[1], None):
            with pytest.raises(BadValue, match="the key must be part-i"):
                held.add(key, data)


def test_bytes_that_are_none_of_ours_are_refused() -> None:
    for held, (key, data) in ((questions_reader(), question_record()), (answers_reader(), answer_record())):
        for each in (b"", b"\x00", data[:-1], data + b"\x00", b"\x01" + data[1:], bytes(2 << 20)):
            with pytest.raises(WireError):
                held.add(key, each)
    with pytest.raises(BadFrame, match="schema id 14 is not the 13 of this topic"):
        questions_reader().add(*answer_record())


def test_a_registrys_ids_are_written_and_read() -> None:
    schemas = Schemas({"questions": 77, "answers": 78})
    (asked_as,) = questions.encode(question(), FINGERPRINT, 1 << 20, schemas)
    (said,) = answers.encode(answer(), FINGERPRINT, 1 << 20, schemas)
    assert (asked_as[1][4], said[1][4]) == (77, 78)
    assert questions.Assembler(FINGERPRINT, 2, 5, DIMENSION, schemas).add(*asked_as) is not None
    assert answers.Assembler(FINGERPRINT, Unit(1, 0, 3, 2), DIMENSION, schemas).add(*said) is not None


def test_parts_of_two_questions_are_not_mixed_and_leftovers_do_no_harm() -> None:
    """A longer question before leaves parts on a compacted topic, which come first and then in the middle."""
    long, short = (questions.encode(question(round=r), FINGERPRINT, TIGHT + 8 * r) for r in (0, 2))
    assert len(long) > len(short) >= 3
    for given in ([*long[len(short) :], *short], [*long[:-1], *short], [short[0], *long[1:], *short]):
        held = questions_reader()
        found = [each for each in (held.add(*record) for record in given) if each is not None]
        assert [each.round for each in found] == [2]
    held = questions_reader()
    held.add(*short[0])
    assert held.add(b"part-0", None) is None
    assert [held.add(*record) for record in short[1:]] == [None] * (len(short) - 1)
