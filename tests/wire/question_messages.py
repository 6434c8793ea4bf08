"""Valid questions and answers for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.combining.questions import Answer, Asked, Question
from streaminfer.sampling.units import Span, Unit
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.sampled import answers, questions
from tests.wire.messages import FINGERPRINT

DIMENSION = 3
UNIT = Unit(subposterior=1, chain=0, chains=3, subposteriors=2)
SHARES = (Asked(0, 4, (Span(0, 3, 90), Span(2, 0, 70), Span(4, 1, 1))), Asked(1, 3, (Span(1, 0, 50),)))
"""Of two subposteriors and five partitions."""
JUST: dict[str, Any] = {"kind": "log_likelihood", "bandwidth": np.empty(0)}


def question(**changes: Any) -> Question:
    fields: dict[str, Any] = {
        "kind": "refine", "theta": np.array([[1.5, -2.25, 1e-300], [0.0, 1e300, -7.0]]), "shares": SHARES,
        "bandwidth": np.array([0.5, 1e-9, 3.0]), "seed": 7, "round": 2,
    }  # fmt: skip
    return Question(**{**fields, **changes})


def answer(**changes: Any) -> Answer:
    fields: dict[str, Any] = {
        "question": "0123456789abcdef" * 2, "kind": "refine", "subposterior": 1, "segment": 3,
        "values": np.array([[1.5, -2.25, 1e-300], [0.0, 1e300, -7.0]]), "n_events": 50,
    }  # fmt: skip
    return Answer(**{**fields, **changes})


def question_record(**changes: Any) -> tuple[bytes, bytes]:
    """Key and record with any field changed, also to what `encode` would never write."""
    ((key, data),) = questions.encode(question(), FINGERPRINT, 1 << 20)
    return key, DECLARED.encode(questions.TOPIC, {**DECLARED.decode(questions.TOPIC, data), **changes})


def answer_record(**changes: Any) -> tuple[bytes, bytes]:
    ((key, data),) = answers.encode(answer(), FINGERPRINT, 1 << 20)
    return key, DECLARED.encode(answers.TOPIC, {**DECLARED.decode(answers.TOPIC, data), **changes})


def questions_reader() -> questions.Assembler:
    return questions.Assembler(FINGERPRINT, 2, 5, DIMENSION)


def answers_reader() -> answers.Assembler:
    return answers.Assembler(FINGERPRINT, UNIT, DIMENSION)
