"""Answers as records of a compacted topic: the newest of each unit's partition stays, in one record or in parts."""

from __future__ import annotations

import math
from typing import Any, Final

from streaminfer.combining.questions import Answer, shape_of
from streaminfer.sampling.units import Unit
from streaminfer.wire import parts
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import MAX_INDEX, require
from streaminfer.wire.sampled.questions import check_asked

TOPIC: Final = "answers"


def encode(answer: Answer, fingerprint: str, max_bytes: int, schemas: Schemas = DECLARED) -> list[tuple[bytes, bytes]]:
    """(key, record) of every part, none larger than `max_bytes`; raises BadValue if a number is not finite."""
    common = {
        "fingerprint": fingerprint,
        "question": answer.question,
        "kind": answer.kind,
        "subposterior": answer.subposterior,
        "segment": answer.segment,
        "n_events": answer.n_events,
        "n_vectors": len(answer.values),
    }
    what = ("a number of an answer", "an answer")
    return parts.encode(TOPIC, common, {"values": answer.values}, parts.key_of, max_bytes, schemas, what)


class Assembler:
    """Takes the records of one unit's partition in their order and gives the answers that they complete."""

    def __init__(self, fingerprint: str, unit: Unit, dimension: int, schemas: Schemas = DECLARED) -> None:
        self._fingerprint, self._unit, self._dimension, self._schemas = fingerprint, unit, dimension, schemas
        self._parts = parts.Joining(("values",))

    def add(self, key: bytes | None, data: bytes | None) -> Answer | None:
        """The answer that this record completes; raises WireError if it is none of this unit and spec.

        A tombstone takes an unfinished answer away.
        """
        value = self._parts.decoded(TOPIC, (key, data), self._schemas, self._check)
        if value is None:
            return None
        held = self._parts.add(value["question"], value, {"values": self._size(value)})
        return None if held is None else self._joined(held)

    def _shape(self, value: dict[str, Any]) -> tuple[int, ...]:
        return shape_of(value["kind"], value["n_vectors"], self._dimension)

    def _size(self, value: dict[str, Any]) -> int:
        return math.prod(self._shape(value))

    def _check(self, part: int, value: dict[str, Any]) -> None:
        """Everything but the numbers."""
        chains.check_fingerprint(value, self._fingerprint)
        check_asked(value, "question", self._dimension)
        ours = self._unit.subposterior
        require(value["subposterior"] == ours, "subposterior", f"must be {ours}", value["subposterior"])
        require(0 <= value["segment"] <= MAX_INDEX, "segment", "must be 0 or more", value["segment"])
        chains.check_numbers(value, ("n_events",))
        parts.check(value, part, self._size(value))

    def _joined(self, held: list[dict[str, Any]]) -> Answer:
        first = held[0]
        values = parts.numbers_of(held, "values", self._size(first)).reshape(self._shape(first))
        names = ("question", "kind", "subposterior", "segment", "n_events")
        return Answer(values=values, **{name: first[name] for name in names})
