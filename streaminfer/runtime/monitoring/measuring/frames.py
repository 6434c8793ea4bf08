"""Messages on a pipe: a kind, a length, bytes. No more than a bound is ever read into memory."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

_HEADER: Final = struct.Struct(">cI")
_LENGTH: Final = struct.Struct(">I")
MOST: Final = 64 << 20
"""Bytes of a message. The draws of a snapshot have 8 MB at most, and a request has two snapshots."""


class BrokenPipe(Exception):
    """The other side does not keep to the format; nothing that comes after can be read."""


class Frame(NamedTuple):
    """One message."""

    kind: bytes
    """One byte."""
    payload: bytes


def packed(frame: Frame) -> bytes:
    """As it is on the pipe."""
    if len(frame.payload) > MOST:
        raise BrokenPipe(f"a message of {len(frame.payload)} bytes is larger than {MOST}")
    return _HEADER.pack(frame.kind, len(frame.payload)) + frame.payload


def read(stream: BinaryIO) -> Frame | None:
    """The next message of a stream that waits for it; None at its end."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    kind, length = _header(header)
    payload = stream.read(length)
    return Frame(kind, payload) if len(payload) == length else None


def _header(data: bytes) -> tuple[bytes, int]:
    kind, length = _HEADER.unpack(data)
    if length > MOST:
        raise BrokenPipe(f"a message of {length} bytes is larger than {MOST}")
    return kind, length


class Incoming:
    """Puts messages together from what a pipe has ready."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, data: bytes) -> Iterator[Frame]:
        """All messages that are whole now; raises BrokenPipe."""
        self._data += data
        while len(self._data) >= _HEADER.size:
            kind, length = _header(bytes(self._data[: _HEADER.size]))
            end = _HEADER.size + length
            if len(self._data) < end:
                return
            payload = bytes(self._data[_HEADER.size : end])
            del self._data[:end]
            yield Frame(kind, payload)


def joined(pieces: Sequence[bytes]) -> bytes:
    """Some byte strings as one."""
    return b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def parted(data: bytes) -> list[bytes]:
    """The byte strings that were `joined`; raises BrokenPipe."""
    pieces, at = [], 0
    while at < len(data):
        if at + _LENGTH.size > len(data):
            raise BrokenPipe("a message ends in the middle of a length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise BrokenPipe("a message ends in the middle of a part")
        pieces.append(data[at : at + length])
        at += length
    return pieces
