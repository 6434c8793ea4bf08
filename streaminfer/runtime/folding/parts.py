"""Puts increments together from their records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streaminfer.variational.increment import Increment, Layout
from streaminfer.wire import increments, key_columns
from streaminfer.wire.errors import BadValue
from streaminfer.wire.increments import Part

MAX_BYTES: Final = 256 << 20
"""Bytes of all unfinished increments; beyond that the oldest goes, and its worker makes it again."""
OVERHEAD: Final = 4096
"""Bytes that an unfinished increment takes beside its statistics."""


class Parts:
    """Holds the parts of one unfinished increment for each writer; a part out of turn discards what it breaks."""

    def __init__(
        self,
        layout: Layout,
        belongs: Callable[[bytes], bool] = lambda _: True,
    ) -> None:
        """`belongs` says whether a label is of this shard. Increments with labels have any size."""
        self._layout, self._belongs = layout, belongs
        size = increments.most_numbers(layout)
        self._most_parts = increments.MAX_PARTS if layout.labelled else max(1, size)
        self._most_bytes = key_columns.MAX_BYTES if layout.labelled else 8 * size
        self._open: dict[str, list[Part]] = {}

    def add(self, part: Part) -> Increment | None:
        """The increment that this part completes; raises WireError if its statistics are not the model's."""
        value = part.value
        held = self._open.pop(value["writer"], [])
        if value["parts"] > self._most_parts:
            raise BadValue(f"parts must not exceed the {self._most_parts} statistics (got {value['parts']})")
        continues = len(held) == value["part"] and (not held or held[0].of == part.of)
        if not continues:
            held = []
            if value["part"] != 0:
                return None
        held.append(part)
        # With more bytes than the statistics have, the decoder refuses it now instead of its being held.
        too_large = _bytes(held) > self._most_bytes
        if too_large and self._layout.labelled:
            raise BadValue(f"the columns of keys must have at most {self._most_bytes} bytes")
        if too_large or len(held) == value["parts"]:
            return self._assemble(held)
        self._open[value["writer"]] = held
        while len(self._open) > 1 and self._open_bytes() > MAX_BYTES:
            del self._open[next(iter(self._open))]
        return None

    def _assemble(self, held: list[Part]) -> Increment:
        return increments.assemble(held, self._layout, self._belongs)

    def _open_bytes(self) -> int:
        """What the unfinished increments take; without keys each may become as large as the statistics are."""
        if not self._layout.labelled:
            return len(self._open) * (self._most_bytes + OVERHEAD)
        return sum(_bytes(held) + OVERHEAD * len(held) for held in self._open.values())


def _bytes(held: list[Part]) -> int:
    return sum(len(each.value["statistics"]) for each in held)
