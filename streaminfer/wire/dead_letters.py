"""Dead letters: a record's original bytes, with where it came from and why in the headers.

The key is the source position, so the same record sent twice is one dead letter. A mark `retried/…` under a key of
its own says that a letter was sent again; the letter itself stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from streaminfer.wire.errors import BadValue

_PREFIX: Final = "streaminfer-"
_LAST: Final = _PREFIX + "tombstone"
"""The last of our headers; those after it are the source record's, whatever they are called."""
_RETRIED: Final = b"retried/"
MAX_REASON: Final = 500

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be absorbed. `headers` are the record's own."""

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes | None
    source_key: bytes | None = None
    headers: Headers = ()

    @property
    def key(self) -> bytes:
        return f"{self.topic}/{self.partition}/{self.offset}".encode()

    @property
    def retried_key(self) -> bytes:
        return _RETRIED + self.key

    def to_headers(self) -> Headers:
        """The letter's headers: ours, then the source record's own."""
        ours = [
            (_PREFIX + "topic", self.topic.encode()),
            (_PREFIX + "partition", str(self.partition).encode()),
            (_PREFIX + "offset", str(self.offset).encode()),
            (_PREFIX + "reason", self.reason[:MAX_REASON].encode("utf-8", "backslashreplace")),
        ]
        if self.source_key is not None:
            ours.append((_PREFIX + "key", self.source_key))
        ours.append((_LAST, b"1" if self.value is None else b"0"))
        return (*ours, *self.headers)


def is_retried_mark(key: bytes | None) -> bool:
    return key is not None and key.startswith(_RETRIED)


def decode(value: bytes | None, headers: Headers) -> DeadLetter:
    """A letter read back; raises BadValue where its headers are not ours."""
    end = next((i + 1 for i, (name, _) in enumerate(headers) if name == _LAST), 0)
    ours = {name.removeprefix(_PREFIX): data for name, data in headers[:end]}
    try:
        topic, partition, offset = ours["topic"].decode(), int(ours["partition"]), int(ours["offset"])
        reason = ours["reason"].decode("utf-8", "replace")
    except (KeyError, ValueError) as error:
        raise BadValue(f"a dead letter without its source: {error}") from error
    if partition < 0 or offset < 0:
        raise BadValue(f"a dead letter from partition {partition}, offset {offset}")
    original = None if ours["tombstone"] == b"1" else value
    return DeadLetter(topic, partition, offset, reason, original, ours.get("key"), headers[end:])
