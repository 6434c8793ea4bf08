"""Draws as records of a compacted topic: a block is one record, or parts `i of n` if it does not fit into one.

The parts of a block are written in one transaction, in order, by the only writer of their partition.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple

from streaminfer.sampling.draws import DRAWING, PHASES, Draws
from streaminfer.sampling.units import Unit
from streaminfer.variational.methods.svb import LOWEST
from streaminfer.wire import parts
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import MAX_INDEX, MAX_NUMBER, require

TOPIC: Final = "draws"
MAX_DRAWS: Final = 100_000
"""Of one block."""
MAX_BYTES: Final = 256 << 20
"""Of the numbers of one block, if it has more draws than one."""
LARGEST_WEIGHT: Final = 1e100
BESIDES: Final = 2
"""Numbers of a draw besides its values: weight and log density."""
_NUMBERS: Final = ("values", "weights", "log_density")
_COUNTS: Final = ("n_dead_lettered", "n_lost", "n_scored", "begin", "end")
_KEY: Final = re.compile(rb"(0|[1-9][0-9]{0,9})/(0|[1-9][0-9]{0,9})/(0|[1-9][0-9]{0,15})(?:/([1-9][0-9]{0,3}))?")


class RecordKey(NamedTuple):
    """Which block of a unit's segment a record has, and which part of it."""

    unit: int
    segment: int
    block: int
    part: int = 0

    @property
    def key(self) -> bytes:
        """The record's key: every part has its own, as only the newest record of a key stays."""
        of = f"{self.unit}/{self.segment}/{self.block}"
        return (of if self.part == 0 else f"{of}/{self.part}").encode()


class Received(NamedTuple):
    """The draws of a block, and which block it is."""

    place: RecordKey
    draws: Draws


def place_of(key: bytes | None) -> RecordKey | None:
    """What a record's key says; None if it is not a key of this topic."""
    match = None if key is None else _KEY.fullmatch(key)
    if match is None:
        return None
    found = RecordKey(*(int(group or 0) for group in match.groups()))
    return found if max(found.unit, found.segment) <= MAX_INDEX and found.block <= MAX_NUMBER else None


def encode(
    draws: Draws, unit: int, block: int, max_bytes: int, schemas: Schemas = DECLARED, topic: str = TOPIC
) -> list[tuple[bytes, bytes]]:
    """(key, record) of every part of a block, none larger than `max_bytes`; raises BadValue if a number is not finite.

    D numbers of each draw come first, then the weights, then the log densities.
    """
    common = {
        "fingerprint": draws.fingerprint,
        "subposterior": draws.subposterior,
        "chain": draws.chain,
        "segment": draws.segment,
        "phase": draws.phase,
        "begin": draws.begin,
        "end": draws.end,
        "thin": draws.thin,
        "size": draws.size,
        "noise": draws.noise,
        **draws.counters._asdict(),
        "n_events": draws.n_events,
        "n_dead_lettered": draws.n_dead_lettered,
        "n_lost": draws.n_lost,
        "frontier": chains.span_fields(draws.frontier),
        "score": draws.score,
        "n_scored": draws.n_scored,
        "n_draws": len(draws.weights),
        "n_log_density": len(draws.log_density),
    }
    numbers = {name: getattr(draws, name) for name in _NUMBERS}
    place = RecordKey(unit, draws.segment, block)
    what = ("a number of a draw", "a block")
    return parts.encode(topic, common, numbers, lambda part: place._replace(part=part).key, max_bytes, schemas, what)


class Assembler:
    """Takes the records of one unit's partition in their order and gives the blocks that they complete.

    A draw has `size` numbers, and a record of the data format at most `max_events` events. A part out of turn discards
    the unfinished block before it.
    """

    def __init__(
        self, fingerprint: str, unit: Unit, size: int, schemas: Schemas = DECLARED, max_events: int = 1,
        topic: str = TOPIC,
    ) -> None:  # fmt: skip
        self._fingerprint, self._unit, self._size, self._topic = fingerprint, unit, size, topic
        self._schemas, self._max_events = schemas, max_events
        self._parts = parts.Joining(_NUMBERS)

    def add(self, key: bytes | None, data: bytes | None) -> Received | None:
        """The block that this record completes; raises WireError if it is not of this unit and spec.

        A tombstone completes nothing. What it takes away, its key says.
        """
        place = place_of(key)
        try:
            if place is None or place.unit != self._unit.number:
                raise BadValue(f"the key must be {self._unit.number}/segment/block (got {(key or b'')[:40]!r})")
            if data is None:
                self._parts.take_away(place[:3])
                return None
            value = self._schemas.decode(self._topic, data)
            self._check(place, value)
        except WireError:
            self._parts.clear()
            raise
        n_draws = value["n_draws"]
        sizes = {"values": self._size * n_draws, "weights": n_draws, "log_density": n_draws}
        held = self._parts.add(place[:3], value, sizes)
        return None if held is None else Received(place._replace(part=0), self._joined(held))

    def _check(self, place: RecordKey, value: dict[str, Any]) -> None:
        """Everything but the numbers of draws."""
        unit = self._unit
        chains.check_fingerprint(value, self._fingerprint)
        ours = (value["subposterior"], value["chain"]) == (unit.subposterior, unit.chain)
        rule = f"must be {unit.chain} of subposterior {unit.subposterior}"
        require(ours, "chain", rule, (value["subposterior"], value["chain"]))
        require(value["segment"] == place.segment, "segment", "must be that of the key", value["segment"])
        chains.check_phase(value, PHASES)
        chains.check_numbers(value, _COUNTS)
        require(value["begin"] <= value["end"], "end", f"must not be below {value['begin']}", value["end"])
        require(value["thin"] >= 1, "thin", "must be 1 or more", value["thin"])
        for name in ("size", "noise"):
            require(0 <= value[name] < math.inf, name, "must be 0 or more, and finite", value[name])
        most = -LOWEST * value["n_scored"] * (1 + 1e-9)
        require(abs(value["score"]) <= most, "score", f"must be within {most:g} of 0", value["score"])
        value["counters"] = chains.counters_of(value)
        value["frontier"] = chains.spans_of(value["frontier"], unit)
        chains.check_events(value["n_events"], value["frontier"], self._max_events)
        self._check_counts(place, value)

    def _check_counts(self, place: RecordKey, value: dict[str, Any]) -> None:
        """Draws, and the parts that they are in."""
        n_draws = value["n_draws"]
        most = min(MAX_DRAWS, -(-(value["end"] - value["begin"]) // value["thin"]))
        require(0 <= n_draws <= most, "n_draws", f"must be 0 to the {most} of so many steps", n_draws)
        drawing = n_draws == 0 or value["phase"] in DRAWING
        require(drawing, "n_draws", f"must be 0 if the phase is {value['phase']}", n_draws)
        require(n_draws <= 1 or 8 * self._n_numbers(n_draws) <= MAX_BYTES, "n_draws", "must fit a block", n_draws)
        known = value["n_log_density"] in {0, n_draws}
        require(known, "n_log_density", f"must be 0 or the {n_draws} draws", value["n_log_density"])
        parts.check(value, place.part, self._n_numbers(n_draws))

    def _n_numbers(self, n_draws: int) -> int:
        return n_draws * (self._size + BESIDES)

    def _joined(self, held: list[dict[str, Any]]) -> Draws:
        fields = self._parts.common(held[0])
        n_draws, n_log_density = fields.pop("n_draws"), fields.pop("n_log_density")
        sizes = (n_draws * self._size, n_draws, n_log_density)
        numbers = [parts.numbers_of(held, name, size) for name, size in zip(_NUMBERS, sizes, strict=True)]
        weights = numbers[1]
        weighed = bool(((weights >= 0) & (weights <= LARGEST_WEIGHT)).all())
        require(weighed, "weights", f"must be 0 to {LARGEST_WEIGHT:g}", weights[:3].tolist())
        for name in (*fields["counters"]._fields, "parts"):
            del fields[name]
        matrix = numbers[0].reshape(n_draws, self._size)
        return Draws(**fields, values=matrix, weights=weights, log_density=numbers[2])
