"""Headers as bytes: for each one, length and bytes of its name, length and bytes of its value."""

from __future__ import annotations

from struct import Struct

from streaminfer.bus.protocol import Headers

_LENGTH = Struct(">I")


def encode(headers: Headers) -> bytes | None:
    """None for no headers, so that most rows hold nothing at all."""
    if not headers:
        return None
    parts: list[bytes] = []
    for name, value in headers:
        raw = name.encode()
        parts += (_LENGTH.pack(len(raw)), raw, _LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode(blob: bytes) -> Headers:
    """The inverse of `encode` for what is not None."""
    found: list[tuple[str, bytes]] = []
    at = 0
    while at < len(blob):
        name, at = _field(blob, at)
        value, at = _field(blob, at)
        found.append((name.decode(), value))
    return tuple(found)


def _field(blob: bytes, at: int) -> tuple[bytes, int]:
    begin = at + _LENGTH.size
    end = begin + int(_LENGTH.unpack_from(blob, at)[0])
    return blob[begin:end], end
