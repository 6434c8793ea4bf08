"""Puts increments together from their records."""

from __future__ import annotations

from typing import Final

from streaminfer.variational.increment import Increment
from streaminfer.wire import increments
from streaminfer.wire.errors import BadValue
from streaminfer.wire.increments import Part

MAX_BYTES: Final = 256 << 20
"""Of all unfinished increments; beyond that the oldest goes, and its worker makes it again."""
OVERHEAD: Final = 4096
"""Bytes that an unfinished increment takes beside its statistics."""


class Parts:
    """Holds the parts of one unfinished increment for each writer; a part out of turn discards what it breaks."""

    def __init__(self, statistics_size: int, timed: bool = False, windowed: bool = False) -> None:
        self._statistics, self._timed, self._windowed = statistics_size, timed, windowed
        self._size = increments.most_numbers(statistics_size, timed, windowed)
        self._open: dict[str, list[Part]] = {}

    def add(self, part: Part) -> Increment | None:
        """The increment that this part completes; raises WireError where its statistics are not the model's."""
        value = part.value
        held = self._open.pop(value["writer"], [])
        if value["parts"] > max(1, self._size):
            raise BadValue(f"parts must not exceed the {self._size} statistics (got {value['parts']})")
        continues = len(held) == value["part"] and (not held or held[0].of == part.of)
        if not continues:
            held = []
            if value["part"] != 0:
                return None
        held.append(part)
        # With more bytes than the statistics have, the decoder refuses it now instead of its being held.
        too_large = sum(len(each.value["statistics"]) for each in held) > 8 * self._size
        if too_large or len(held) == value["parts"]:
            return increments.assemble(held, self._statistics, self._timed, self._windowed)
        self._open[value["writer"]] = held
        while len(self._open) > 1 and len(self._open) * (8 * self._size + OVERHEAD) > MAX_BYTES:
            del self._open[next(iter(self._open))]
        return None
