"""The newest dead letters."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any, Final

from streaminfer.bus.protocol import Record
from streaminfer.runtime.dead_letters.documents import document
from streaminfer.wire import dead_letters
from streaminfer.wire.dead_letters import DeadLetter
from streaminfer.wire.errors import WireError

MOST: Final = 1000
VALUE_BYTES: Final = 2048
"""Bytes of a value that are remembered; `streaminfer dead-letters --json` has all of it."""


class DeadLetters:
    """Dead letters by the keys of the marks that take them away when they are sent again, the oldest first."""

    def __init__(self) -> None:
        self._held: OrderedDict[bytes, tuple[int, DeadLetter]] = OrderedDict()
        self.shown: tuple[tuple[int, DeadLetter], ...] = ()
        """Newest first, each with its number. Replaced as a whole, so that any thread may read it."""

    def add(self, record: Record) -> bool:
        """Takes a record of the topic, and whether anything has changed; what cannot be read is passed over."""
        if record.key is not None and dead_letters.is_retried_mark(record.key):
            return self._held.pop(record.key, None) is not None
        try:
            letter = dead_letters.decode(record.value, record.headers)
        except WireError:
            return False
        self._held.pop(letter.retried_key, None)
        self._held[letter.retried_key] = (record.offset, _short(letter))
        if len(self._held) > MOST:
            self._held.popitem(last=False)
        return True

    def show(self) -> None:
        """Shows what was taken."""
        self.shown = tuple(sorted(self._held.values(), key=lambda each: -each[0]))

    def page(self, before: int | None, limit: int) -> tuple[list[dict[str, Any]], int | None]:
        """The newest with a number below `before`, and the number after which the next page goes on."""
        rest = [each for each in self.shown if before is None or each[0] < before]
        listed = rest[:limit]
        more = listed[-1][0] if len(rest) > limit else None
        return [{"id": number, **document(letter)} for number, letter in listed], more


def _short(letter: DeadLetter) -> DeadLetter:
    """With the first bytes of its value and key only, and without headers that are as long."""
    value, key, headers = letter.value, letter.source_key, letter.headers
    if sum(len(name) + len(data) for name, data in headers) > VALUE_BYTES:
        letter = replace(letter, headers=(), dropped=f"{len(headers)} headers")
    if key is not None and len(key) > VALUE_BYTES:
        letter = replace(letter, source_key=key[:VALUE_BYTES], dropped=f"{len(key) - VALUE_BYTES} bytes of the key")
    if value is not None and len(value) > VALUE_BYTES:
        full = len(value) if letter.full_length is None else letter.full_length
        letter = replace(letter, value=value[:VALUE_BYTES], full_length=full)
    return letter
