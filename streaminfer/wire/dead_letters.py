"""Dead letters: a record's original bytes, with its source and the reason in the headers.

The key is the source position, so the same record sent twice is one dead letter. A mark `retried/…` under a key of
its own says that a letter was sent again; the letter itself stays. Records of other producers may be larger than a
letter can be: then it has the first part of the value, and headers that say what is missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from streaminfer.topics import declarations
from streaminfer.wire.errors import BadValue

_PREFIX: Final = "streaminfer-"
_LAST: Final = _PREFIX + "tombstone"
"""The last of our headers; those after it are the source record's, whatever they are called."""
_RETRIED: Final = b"retried/"
_RESERVE: Final = 64
"""For the header that says that a value is cut."""
_HEADER_OVERHEAD: Final = 16
MAX_REASON: Final = 500
MAX_BYTES: Final = declarations()["dead-letters"].max_bytes
MAX_KEY: Final = 256 << 10
"""The bytes of a source record's key that are kept, and of its headers: all of them, or the first that fit."""
MAX_HEADERS: Final = 256 << 10

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that could not be absorbed. `headers` are the record's own.

    If it is cut, `full_length` is how long the value was, and `dropped` what else of the record is missing.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    value: bytes | None
    source_key: bytes | None = None
    headers: Headers = ()
    full_length: int | None = None
    dropped: str = ""

    @property
    def is_cut(self) -> bool:
        """Whether the letter has less than the record had: it cannot be sent again."""
        return self.full_length is not None or bool(self.dropped)

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
        if self.full_length is not None:
            ours.append((_PREFIX + "length", str(self.full_length).encode()))
        if self.dropped:
            ours.append((_PREFIX + "dropped", self.dropped.encode()))
        ours.append((_LAST, b"1" if self.value is None else b"0"))
        return (*ours, *self.headers)


def fitting(letter: DeadLetter) -> DeadLetter:
    """The letter, or as much of it as the topic takes: the value gives way, and what is very large of the rest."""
    if _RESERVE + len(letter.key) + _taken(letter.to_headers()) + len(letter.value or b"") <= MAX_BYTES:
        return letter
    dropped = []
    key, headers, value = letter.source_key, _first_headers(letter.headers), letter.value
    if key is not None and len(key) > MAX_KEY:
        dropped.append(f"{len(key) - MAX_KEY} bytes of the key")
        key = key[:MAX_KEY]
    if len(headers) < len(letter.headers):
        dropped.append(f"{len(letter.headers) - len(headers)} headers")
    cut = replace(letter, source_key=key, headers=headers, dropped=", ".join(dropped))
    room = MAX_BYTES - _RESERVE - len(letter.key) - _taken(cut.to_headers())
    if value is not None and len(value) > room:
        cut = replace(cut, value=value[:room], full_length=len(value))
    return cut


def _first_headers(headers: Headers) -> Headers:
    kept, left = [], MAX_HEADERS
    for header in headers:
        left -= _taken((header,))
        if left < 0:
            break
        kept.append(header)
    return tuple(kept)


def _taken(headers: Headers) -> int:
    """The bytes of headers, with more than a bus adds to each: a million empty ones are not small."""
    return sum(len(name.encode()) + len(value) + _HEADER_OVERHEAD for name, value in headers)


_GOT: Final = re.compile(r",? \(?got .*", re.DOTALL)
_PLACE: Final = re.compile(r": line \d+ column \d+ \(char \d+\)$| in position \d+.*$")
_ROWS: Final = re.compile(r"^rows [\d, -]+ of \d+: ")


def gist(reason: str) -> str:
    """A reason without what differs between letters that have the same fault: values, places and numbers of rows."""
    return _GOT.sub("", _PLACE.sub("", _ROWS.sub("", reason)))


def several(reason: str) -> str:
    """What letters of one gist have in common, one of whose reasons this is: its value is one of several."""
    found = _GOT.search(_ROWS.sub("", reason))
    if found is None:
        return gist(reason)
    got = found[0].partition(";")[0]
    return f"{gist(reason)}{got.removesuffix(')')}, ...{')' if got.endswith(')') else ''}"


def is_retried_mark(key: bytes | None) -> bool:
    return key is not None and key.startswith(_RETRIED)


def decode(value: bytes | None, headers: Headers) -> DeadLetter:
    """A letter read back; raises BadValue if its headers are not ours."""
    end = next((i + 1 for i, (name, _) in enumerate(headers) if name == _LAST), 0)
    ours = {name.removeprefix(_PREFIX): data for name, data in headers[:end]}
    try:
        topic, partition, offset = ours["topic"].decode(), int(ours["partition"]), int(ours["offset"])
        reason = ours["reason"].decode("utf-8", "replace")
        length = int(ours["length"]) if "length" in ours else None
    except (KeyError, ValueError) as error:
        raise BadValue(f"a dead letter without its source: {error}") from error
    if length is not None and length < 0:
        raise BadValue(f"a dead letter of a value of {length} bytes")
    if partition < 0 or offset < 0:
        raise BadValue(f"a dead letter from partition {partition}, offset {offset}")
    original = None if ours["tombstone"] == b"1" else value
    dropped = ours.get("dropped", b"").decode("utf-8", "replace")
    return DeadLetter(topic, partition, offset, reason, original, ours.get("key"), headers[end:], length, dropped)
