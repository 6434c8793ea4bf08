"""Compressed batches to bytes, with an end: kafka-python expands 200 kB to 200 MB without asking.

Every function raises TooBig instead of returning more than `limit` bytes, and anything at all for bytes that are not
what they should be.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Final

import lz4.frame
import snappy
import zstandard

_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16


class TooBig(ValueError):
    """The bytes would expand to more than they may."""


def from_gzip(data: bytes, limit: int) -> bytes:
    """One gzip member or several."""
    parts, left = [], limit
    while data:
        expander = zlib.decompressobj(wbits=31)
        parts.append(_within(expander.decompress(data, left + 1), left))
        if not expander.eof:
            raise ValueError("the gzip stream is incomplete")
        left -= len(parts[-1])
        data = expander.unused_data
    return b"".join(parts)


def from_snappy(data: bytes, limit: int) -> bytes:
    """Plain snappy, or the blocks in which Java writes it; each says its length before it is expanded."""
    if not data.startswith(_XERIAL):
        return _snappy_block(data, limit)
    parts, left, at = [], limit, _XERIAL_HEADER
    while at < len(data):
        (size,) = struct.unpack_from("!i", data, at)
        if not 0 < size <= len(data) - at - 4:
            raise ValueError(f"a snappy block of {size} bytes")
        parts.append(_snappy_block(data[at + 4 : at + 4 + size], left))
        left -= len(parts[-1])
        at += 4 + size
    return b"".join(parts)


def _snappy_block(data: bytes, limit: int) -> bytes:
    length = shift = 0
    for byte in data[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > limit:
        raise TooBig
    return bytes(snappy.decompress(data))


def from_lz4(data: bytes, limit: int) -> bytes:
    """One LZ4 frame or several."""
    parts, left = [], limit
    while data:
        expander = lz4.frame.LZ4FrameDecompressor()
        parts.append(_within(expander.decompress(data, left + 1), left))
        if not expander.eof:
            raise ValueError("the LZ4 frame is incomplete")
        left -= len(parts[-1])
        data = expander.unused_data or b""
    return b"".join(parts)


def from_zstd(data: bytes, limit: int) -> bytes:
    """One Zstandard frame or several."""
    expander = zstandard.ZstdDecompressor()
    with expander.stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        parts, left = [], limit + 1
        while left > 0 and (part := reader.read(left)):
            parts.append(part)
            left -= len(part)
    return _within(b"".join(parts), limit)


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise TooBig
    return data


EXPANDERS: Final[dict[int, tuple[str, Callable[[bytes, int], bytes]]]] = {
    1: ("gzip", from_gzip),
    2: ("snappy", from_snappy),
    3: ("lz4", from_lz4),
    4: ("zstd", from_zstd),
}
"""Kafka's numbers for its codecs."""
