"""Questions as records of a compacted topic: only the newest counts, in one record or in parts `i of n`."""

from __future__ import annotations

import re
from typing import Any, Final

from streaminfer.combining.questions import ID_DIGITS, KINDS, Asked, Question
from streaminfer.sampling.units import Unit
from streaminfer.wire import parts
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import Damaged
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import MAX_INDEX, require

TOPIC: Final = "questions"
MAX_VECTORS: Final = 100_000
"""Of one question."""
MAX_BYTES: Final = 256 << 20
"""Of the numbers of one question or answer, if it has more vectors than one."""
MAX_SEED: Final = (1 << 63) - 1
ID: Final = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")
_NUMBERS: Final = ("theta", "bandwidth")


def encode(
    question: Question, fingerprint: str, max_bytes: int, schemas: Schemas = DECLARED
) -> list[tuple[bytes, bytes]]:
    """(key, record) of every part, none larger than `max_bytes`; raises BadValue if a number is not finite."""
    shares = [
        {"subposterior": each.subposterior, "segment": each.segment, "frontier": chains.span_fields(each.spans)}
        for each in question.shares
    ]
    common = {
        "fingerprint": fingerprint,
        "id": question.id,
        "kind": question.kind,
        "seed": question.seed,
        "round": question.round,
        "shares": shares,
        "n_vectors": len(question.theta),
    }
    numbers = {"theta": question.theta, "bandwidth": question.bandwidth}
    return parts.encode(
        TOPIC, common, numbers, parts.key_of, max_bytes, schemas, ("a number of a question", "a question")
    )


def check_asked(value: dict[str, Any], id_field: str, dimension: int) -> None:
    """What questions and answers have in common: id, kind, and how many vectors. Raises BadValue."""
    found = value[id_field]
    require(ID.fullmatch(found) is not None, id_field, f"must be {ID_DIGITS} hexadecimal digits", found[:40])
    require(value["kind"] in KINDS, "kind", f"must be one of {', '.join(KINDS)}", value["kind"][:20])
    n = value["n_vectors"]
    require(1 <= n <= MAX_VECTORS, "n_vectors", f"must be 1 to {MAX_VECTORS}", n)
    require(n == 1 or 8 * n * dimension <= MAX_BYTES, "n_vectors", f"must fit {MAX_BYTES >> 20} MiB", n)


class Assembler:
    """Takes the records of the topic in their order and gives the questions that they complete.

    The spec has so many `subposteriors` and data `partitions`, the model so many parameters (`dimension`).
    """

    def __init__(
        self, fingerprint: str, subposteriors: int, partitions: int, dimension: int, schemas: Schemas = DECLARED
    ) -> None:
        self._fingerprint, self._subposteriors, self._partitions = fingerprint, subposteriors, partitions
        self._dimension, self._schemas = dimension, schemas
        self._parts = parts.Joining(_NUMBERS)

    def add(self, key: bytes | None, data: bytes | None) -> Question | None:
        """The question that this record completes; raises WireError if it is none of this spec.

        A tombstone takes an unfinished question away.
        """
        value = self._parts.decoded(TOPIC, (key, data), self._schemas, self._check)
        if value is None:
            return None
        held = self._parts.add(value["id"], value, self._sizes(value))
        return None if held is None else self._joined(held)

    def _sizes(self, value: dict[str, Any]) -> dict[str, int]:
        d = self._dimension
        return {"theta": value["n_vectors"] * d, "bandwidth": Question.bandwidth_shape(value["kind"], d)[0]}

    def _check(self, part: int, value: dict[str, Any]) -> None:
        """Everything but the numbers."""
        chains.check_fingerprint(value, self._fingerprint)
        check_asked(value, "id", self._dimension)
        require(0 <= value["seed"] <= MAX_SEED, "seed", "must be 0 or more", value["seed"])
        chains.check_numbers(value, ("round",))
        value["shares"] = self._shares(value["shares"])
        parts.check(value, part, sum(self._sizes(value).values()))

    def _shares(self, found: list[dict[str, Any]]) -> tuple[Asked, ...]:
        most, before = self._subposteriors, -1
        require(1 <= len(found) <= most, "shares", f"must be 1 to {most}", len(found))
        shares = []
        for each in found:
            subposterior, segment = each["subposterior"], each["segment"]
            rising = before < subposterior < most
            require(rising, "shares", f"must have rising subposteriors below {most}", subposterior)
            require(0 <= segment <= MAX_INDEX, "shares", "must have segments from 0 on", segment)
            spans = chains.spans_of(each["frontier"], Unit(subposterior, 0, 1, most), "shares")
            known = all(span.partition < self._partitions for span in spans)
            require(known, "shares", f"must have partitions below {self._partitions}", spans[-1:])
            shares.append(Asked(subposterior, segment, spans))
            before = subposterior
        return tuple(shares)

    def _joined(self, held: list[dict[str, Any]]) -> Question:
        fields, sizes = held[0], self._sizes(held[0])
        theta, bandwidth = (parts.numbers_of(held, name, sizes[name]) for name in _NUMBERS)
        wide = bool((bandwidth > 0).all())
        require(wide, "bandwidth", "must be above 0", bandwidth[:3].tolist())
        matrix = theta.reshape(fields["n_vectors"], self._dimension)
        rest = {name: fields[name] for name in ("kind", "shares", "seed", "round")}
        question = Question(theta=matrix, bandwidth=bandwidth, **rest)
        if question.id != fields["id"]:
            raise Damaged("a question is not the one that was written: its id is of another")
        return question
