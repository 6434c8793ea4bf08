"""Increments as records: one each, or parts `i of n` where the statistics do not fit into one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from streaminfer.variational.increment import Increment
from streaminfer.wire import vectors
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue

TOPIC = "increments"
MAX_TEXT = 300
MAX_PARTS = 10_000
ENVELOPE = 4096
"""Bytes left for all but the statistics of a record."""


class Part(NamedTuple):
    """One decoded record of an increment, with everything but whole statistics checked."""

    value: dict[str, Any]

    @property
    def of(self) -> tuple[object, ...]:
        """What the parts of one increment have in common."""
        return tuple(v for k, v in self.value.items() if k not in {"part", "statistics"})


def encode(increment: Increment, max_bytes: int, schemas: Schemas = DECLARED) -> list[bytes]:
    """The records of an increment, none larger than `max_bytes`."""
    pieces = vectors.split(increment.statistics, max_bytes - ENVELOPE)
    common = {
        "fingerprint": increment.fingerprint,
        "writer": increment.writer,
        "topic": increment.topic,
        "partition": increment.partition,
        "epoch": increment.epoch,
        "begin": increment.begin,
        "end": increment.end,
        "n_events": increment.n_events,
        "n_dead_lettered": increment.n_dead_lettered,
        "n_lost": increment.n_lost,
        "base_version": increment.base_version,
        "score": increment.score,
        "parts": len(pieces),
    }
    return [schemas.encode(TOPIC, {**common, "part": i, "statistics": piece}) for i, piece in enumerate(pieces)]


def decode(data: bytes | None, schemas: Schemas = DECLARED, max_events: int = 1) -> Part:
    """One record of an increment; raises WireError where it cannot be one.

    A record of the data format has at most `max_events` events.
    """
    value = schemas.decode(TOPIC, data)
    for name in ("fingerprint", "writer", "topic"):
        _require(len(value[name]) <= MAX_TEXT, name, f"must have at most {MAX_TEXT} characters", value[name][:20])
    for name in ("partition", "epoch", "begin", "n_events", "n_dead_lettered", "n_lost", "base_version", "part"):
        _require(value[name] >= 0, name, "must not be negative", value[name])
    width = value["end"] - value["begin"]
    _require(width > 0, "end", "must be above begin", value["end"])
    counted = value["n_events"] + value["n_dead_lettered"] + value["n_lost"] * max_events
    rule = f"counts must not exceed the {width} positions"
    _require(counted <= width * max_events, "n_events", rule, counted)
    _require(math.isfinite(value["score"]), "score", "must be finite", value["score"])
    _require(1 <= value["parts"] <= MAX_PARTS, "parts", f"must be 1 to {MAX_PARTS}", value["parts"])
    _require(value["part"] < value["parts"], "part", "must be below parts", value["part"])
    return Part(value)


def assemble(parts: list[Part], size: int) -> Increment:
    """The increment that all its parts, in order, make; raises BadValue where its statistics have another size."""
    value = dict(parts[0].value)
    statistics = vectors.join([part.value["statistics"] for part in parts], size)
    del value["part"], value["parts"]
    return Increment(**{**value, "statistics": statistics})


def _require(holds: bool, field: str, rule: str, value: object) -> None:
    if not holds:
        raise BadValue(f"{field} {rule} (got {value!r})")
