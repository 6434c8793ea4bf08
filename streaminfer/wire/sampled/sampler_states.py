"""States of chains as records of a compacted topic: parts, then a head that says which parts it goes with.

A part says by a token what it is of: a hash of the whole set-up, or of all values. So the parts of one write are never
taken for those of another, and a set-up that has not changed need not be written again.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.sampling.states import NO_SEGMENT, STATE_PHASES, SamplerState
from streaminfer.sampling.units import Unit
from streaminfer.wire import vectors
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue, Damaged, Older
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import MAX_PARTS, require

TOPIC: Final = "sampler-state"
TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_DIGEST: Final = re.compile(r"[0-9a-f]{0,128}")
_COUNTS: Final = ("step", "block", "n_drawn", "n_dead_lettered", "n_lost", "n_values", "n_setup_numbers")
HEAD: Final = 0
HEAD_KEY: Final = b"part-0"


def token(numbers: Vector) -> str:
    """32 hexadecimal digits that tell one set-up, or the values of one state, from all others."""
    return _token(vectors.pack(numbers))


def encode(
    state: SamplerState, max_bytes: int, schemas: Schemas = DECLARED, written: str | None = None
) -> list[tuple[bytes, bytes]]:
    """(key, record) of every part, the head last, none larger than `max_bytes`.

    The parts of the set-up are left out if its token is `written`: those that are in the log then are of it. Raises
    BadValue if a number is not finite.
    """
    if not (np.isfinite(state.values).all() and np.isfinite(state.setup).all()):
        raise BadValue("a number of a state is not finite")
    values, setup = vectors.pack(state.values), vectors.pack(state.setup)
    values_token, setup_token = _token(values), _token(setup)
    head = {
        "segment": state.segment,
        "phase": state.phase,
        "step": state.step,
        "block": state.block,
        "n_drawn": state.n_drawn,
        "thin": state.thin,
        "frontier": chains.span_fields(state.frontier),
        "n_events": state.n_events,
        "n_dead_lettered": state.n_dead_lettered,
        "n_lost": state.n_lost,
        "digest": state.digest,
        "topic_id": state.topic_id,
        **state.counters._asdict(),
        "n_values": state.values.size,
        "values_parts": MAX_PARTS,
        "values_token": values_token,
        "n_setup_numbers": state.setup.size,
        "setup_parts": MAX_PARTS,
        "setup_token": setup_token,
    }
    common = {"fingerprint": state.fingerprint, "unit": state.unit, "head": None}
    empty = {**common, "part": MAX_PARTS, "token": setup_token, "payload": b"", "head": head}
    room = max_bytes - len(schemas.encode(TOPIC, empty)) - chains.MARGIN
    first, *further = (piece for (piece,) in vectors.cut_together([values], room))
    parts = [piece for (piece,) in vectors.cut_together([setup], room) if piece]
    if len(parts) + len(further) >= MAX_PARTS:
        raise BadValue(f"a state of {len(parts) + len(further)} records is more than the {MAX_PARTS} there may be")
    head |= {"values_parts": len(further), "setup_parts": len(parts)}
    made = [] if written == setup_token else [(i, setup_token, piece) for i, piece in enumerate(parts, HEAD + 1)]
    made += [(i, values_token, piece) for i, piece in enumerate(further, HEAD + 1 + len(parts))]
    records = [
        (_key(part), schemas.encode(TOPIC, {**common, "part": part, "token": of, "payload": piece}))
        for part, of, piece in made
    ]
    last = {**common, "part": HEAD, "token": "", "payload": first, "head": head}
    return [*records, (HEAD_KEY, schemas.encode(TOPIC, last))]


class _Part(NamedTuple):
    token: str
    payload: bytes


class Shelf:
    """Takes the records of one unit's partition in their order; `newest` is the newest whole state.

    `most` bounds the numbers of a state, values and set-up together. A record of the data format has at most
    `max_events` events. A head whose parts are not there changes nothing: the state before it is still whole, and the
    chain repeats from there what came after.
    """

    def __init__(
        self, fingerprint: str, unit: Unit, most: int, schemas: Schemas = DECLARED, max_events: int = 1
    ) -> None:
        self._fingerprint, self._unit, self._most = fingerprint, unit, most
        self._schemas, self._max_events = schemas, max_events
        self._parts: dict[int, _Part] = {}
        self._setup: tuple[str, Vector] = (_token(b""), np.zeros(0))
        self.newest: SamplerState | None = None

    def add(self, key: bytes | None, data: bytes | None) -> None:
        """One record; a tombstone takes a part away, or all with the head's. Raises WireError if it is none of ours."""
        if data is None:
            self._take_away(key)
            return
        value = self._schemas.decode(TOPIC, data)
        chains.check_fingerprint(value, self._fingerprint)
        part, head = value["part"], value["head"]
        require(value["unit"] == self._unit.number, "unit", f"must be {self._unit.number}", value["unit"])
        require(0 <= part < MAX_PARTS, "part", f"must be 0 to {MAX_PARTS - 1}", part)
        require(key == _key(part), "key", f"must be part-{part}", (key or b"")[:40])
        require((part == HEAD) == (head is not None), "head", "must be that of part 0", part)
        if head is None:
            self._hold(part, value["token"], value["payload"])
            return
        require(value["token"] == "", "token", "must be empty for the head", value["token"][:40])
        found = self._state(head, value["payload"])
        if self.newest is not None and (found.segment, found.step) < (self.newest.segment, self.newest.step):
            raise Older(
                f"step {found.step} of segment {found.segment} after step {self.newest.step} of segment "
                f"{self.newest.segment}: steps only rise, so this was appended again"
            )
        self.newest = found

    def _take_away(self, key: bytes | None) -> None:
        if key == HEAD_KEY:
            self._parts.clear()
            self.newest = None
        else:
            self._parts = {part: held for part, held in self._parts.items() if _key(part) != key}

    def _hold(self, part: int, of: str, payload: bytes) -> None:
        require(TOKEN.fullmatch(of) is not None, "token", "must be 32 hexadecimal digits", of[:40])
        require(len(payload) > 0 and len(payload) % 8 == 0, "payload", "must be numbers", len(payload))
        self._parts.pop(part, None)
        held = sum(len(each.payload) for each in self._parts.values()) + len(payload)
        # What is left over from a longer state before is still here, so there may be twice as much.
        require(held <= 16 * self._most, "payload", f"must be of a state of at most {self._most} numbers", held)
        self._parts[part] = _Part(of, payload)

    def _state(self, head: dict[str, Any], payload: bytes) -> SamplerState:
        """The state of a head and the parts that are held; raises WireError."""
        chains.check_phase(head, STATE_PHASES)
        chains.check_text(head, ("topic_id", "digest"))
        require(_DIGEST.fullmatch(head["digest"]) is not None, "digest", "must be hexadecimal", head["digest"][:20])
        chains.check_numbers(head, _COUNTS)
        waits = head["segment"] >= 0 or (head["segment"], head["phase"]) == (NO_SEGMENT, "waiting")
        require(waits, "segment", "must be 0 or more, or -1 of a chain that waits", head["segment"])
        require(head["thin"] >= 1, "thin", "must be 1 or more", head["thin"])
        drawn = head["n_drawn"] <= -(-head["step"] // head["thin"])
        require(drawn, "n_drawn", f"must be of {head['step']} steps, one of {head['thin']}", head["n_drawn"])
        counters = chains.counters_of(head)
        frontier = chains.spans_of(head["frontier"], self._unit)
        chains.check_events(head["n_events"], frontier, self._max_events)
        numbers = head["n_values"] + head["n_setup_numbers"]
        require(numbers <= self._most, "n_values", f"must be at most {self._most} with the set-up", numbers)
        for name in ("setup_parts", "values_parts"):
            require(0 <= head[name] < MAX_PARTS, name, f"must be 0 to {MAX_PARTS - 1}", head[name])
        setup = self._whole_setup(head)
        values = self._numbers(
            head["values_token"], 1 + head["setup_parts"], head["values_parts"], head["n_values"], payload
        )
        return SamplerState(
            fingerprint=self._fingerprint,
            unit=self._unit.number,
            counters=counters,
            frontier=frontier,
            values=values,
            setup=setup,
            **{
                name: head[name]
                for name in (
                    "segment", "phase", "step", "block", "n_drawn", "thin", "n_events", "n_dead_lettered", "n_lost",
                    "digest", "topic_id",
                )
            },
        )  # fmt: skip

    def _whole_setup(self, head: dict[str, Any]) -> Vector:
        """Most heads go with the set-up of the one before; it is put together once."""
        of, numbers = self._setup
        if of == head["setup_token"] and numbers.size == head["n_setup_numbers"]:
            return numbers
        found = self._numbers(head["setup_token"], HEAD + 1, head["setup_parts"], head["n_setup_numbers"])
        self._setup = (head["setup_token"], found)
        return found

    def _numbers(self, of: str, first: int, n_parts: int, size: int, before: bytes = b"") -> Vector:
        """The numbers that a head's own bytes and parts of one token make; raises WireError."""
        pieces = [before]
        for part in range(first, first + n_parts):
            held = self._parts.get(part)
            if held is None or held.token != of:
                raise BadValue(f"part {part} of a state is not there, or of another state")
            pieces.append(held.payload)
        numbers = vectors.join(pieces, size)
        if _token(b"".join(pieces)) != of:
            raise Damaged("the numbers of a state are not those that were written")
        return numbers


def _key(part: int) -> bytes:
    return f"part-{part}".encode()


def _token(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
