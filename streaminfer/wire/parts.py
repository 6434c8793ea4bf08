"""Messages of numbers that may be too many for one record: it becomes parts `i of n`, each with all other fields.

The parts of a message are written in one transaction, in order, by the only writer of their partition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Vector
from streaminfer.wire import vectors
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.sampled import chains
from streaminfer.wire.sampled.chains import MAX_PARTS, require

_KEY: Final = re.compile(rb"part-(0|[1-9][0-9]{0,3})")


def encode(
    topic: str,
    common: Mapping[str, Any],
    numbers: Mapping[str, NDArray[np.float64]],
    key: Callable[[int], bytes],
    max_bytes: int,
    schemas: Schemas,
    what: tuple[str, str],
) -> list[tuple[bytes, bytes]]:
    """(key, record) of every part, none larger than `max_bytes`; raises BadValue if a number is not finite.

    The numbers of each field are cut together, in the order of the fields. `what` are words for one number and for the
    message.
    """
    number, message = what
    flat = {name: np.ascontiguousarray(each).reshape(-1) for name, each in numbers.items()}
    if not all(np.isfinite(each).all() for each in flat.values()):
        raise BadValue(f"{number} is not finite")
    empty = {**common, "part": MAX_PARTS, "parts": MAX_PARTS, **dict.fromkeys(numbers, b"")}
    room = max_bytes - len(schemas.encode(topic, empty)) - chains.MARGIN
    pieces = vectors.cut_together([vectors.pack(each) for each in flat.values()], room)
    if len(pieces) > MAX_PARTS:
        raise BadValue(f"{message} of {len(pieces)} records is more than the {MAX_PARTS} that there may be")
    return [
        (
            key(part),
            schemas.encode(
                topic, {**common, "part": part, "parts": len(pieces), **dict(zip(numbers, piece, strict=True))}
            ),
        )
        for part, piece in enumerate(pieces)
    ]


def check(value: Mapping[str, Any], part: int, n_numbers: int) -> None:
    """Which part a record is; its key says `part`. Raises BadValue."""
    most = min(MAX_PARTS, max(1, n_numbers))
    require(1 <= value["parts"] <= most, "parts", f"must be 1 to {most}", value["parts"])
    require(value["part"] == part, "part", "must be that of the key", value["part"])
    require(value["part"] < value["parts"], "part", "must be below parts", value["part"])


class Joining:
    """Puts parts together as they come in their order. A part out of turn discards the unfinished message before it.

    `numbers` are the fields that are cut.
    """

    def __init__(self, numbers: Sequence[str]) -> None:
        self._numbers = numbers
        self._of: Hashable = None
        self._held: list[dict[str, Any]] = []

    def clear(self) -> None:
        """Gives up what is not whole."""
        self._held = []

    def take_away(self, of: Hashable) -> None:
        """Gives up what is not whole of one message."""
        if self._of == of:
            self.clear()

    def decoded(
        self,
        topic: str,
        record: tuple[bytes | None, bytes | None],
        schemas: Schemas,
        check: Callable[[int, dict[str, Any]], None],
    ) -> dict[str, Any] | None:
        """The fields of a record (key, value), if `check` of its part finds nothing wrong; None of a tombstone.

        A tombstone takes away what is not whole, and so does a record that is wrong. Raises WireError.
        """
        key, data = record
        try:
            part = part_of(key)
            if data is None:
                self.clear()
                return None
            value = schemas.decode(topic, data)
            check(part, value)
        except WireError:
            self.clear()
            raise
        return value

    def add(self, of: Hashable, value: dict[str, Any], sizes: Mapping[str, int]) -> list[dict[str, Any]] | None:
        """All parts of message `of`, if this is the last of them; raises BadValue.

        `sizes` are the most numbers of each field: no more is held of an unfinished message than it may have.
        """
        held, self._held = self._held, []
        continues = bool(held) and self._of == of and len(held) == value["part"]
        if not continues or self.common(held[0]) != self.common(value):
            held = []
            if value["part"] != 0:
                return None
        held.append(value)
        for name, size in sizes.items():
            found, most = sum(len(each[name]) for each in held), vectors.NUMBER * size
            require(found <= most, name, f"must have at most {most} bytes", found)
        if len(held) == value["parts"]:
            return held
        self._of, self._held = of, held
        return None

    def common(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """What the parts of one message have in common."""
        return {name: each for name, each in value.items() if name not in {"part", *self._numbers}}


def numbers_of(held: Sequence[Mapping[str, Any]], name: str, size: int) -> Vector:
    """A field of all parts together: so many finite numbers. Raises BadValue."""
    return vectors.join([value[name] for value in held], size)


def key_of(part: int) -> bytes:
    """The key of a part, where only the newest message of a partition counts."""
    return f"part-{part}".encode()


def part_of(key: bytes | None) -> int:
    """Which part such a key is of; raises BadValue if it is none."""
    match = None if key is None else _KEY.fullmatch(key)
    if match is None:
        raise BadValue(f"the key must be part-i (got {(key or b'')[:40]!r})")
    return int(match[1])
