"""Avro object container files, whose blocks are expanded with a bound before an Avro library sees them.

fastavro expands whatever a block says it is. So it is given the same file with every block expanded. This stream is
made block by block, with the codec `null` in its header and the blocks' own sync markers, which fastavro checks.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import fastavro
import lz4.block

from streaminfer.bus.broker.fetching.expanding import TooBig, from_snappy, from_zstd
from streaminfer.runtime.loading.files import BadFile
from streaminfer.spec.avro_schema import reduced, width

MAX_BLOCK: Final = 64 << 20
"""Bytes that a block may have, and may expand to: as many as a batch of Kafka's."""
_MAGIC: Final = b"Obj\x01"
_HEADER: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": len(_MAGIC)}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
        ],
    }
)
"""As the specification of Avro has it, under "Object Container Files"."""
_LONGEST: Final = 10
"""Bytes of the longest Avro number."""


class Container:
    """One file: its schema, checked (raises SchemaError), and then its records."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
        if header["magic"] != _MAGIC:
            raise BadFile("its first bytes are not those of an Avro file")
        self._sync, meta = header["sync"], header["meta"]
        self._codec = meta.get("avro.codec", b"null").decode()
        if self._codec not in _EXPANDERS:
            raise BadFile(f"the codec must be one of {', '.join(_EXPANDERS)} (got {self._codec[:40]!r})")
        text = meta["avro.schema"].decode()
        self.schema = reduced(text, dated=True)
        self.document: Any = json.loads(text)
        self._least = width(self.schema)

    def records(self, document: Any) -> Iterator[Any]:
        """The records, read by the file's schema or by one that says of the same bytes less."""
        return iter(fastavro.reader(_Pieces(self._pieces(document))))  # type: ignore[arg-type]

    def _pieces(self, document: Any) -> Iterator[bytes]:
        out = io.BytesIO()
        meta = {"avro.schema": json.dumps(document).encode(), "avro.codec": b"null"}
        fastavro.schemaless_writer(out, _HEADER, {"magic": _MAGIC, "meta": meta, "sync": self._sync})
        yield out.getvalue()
        block = 0
        while (count := self._long()) is not None:
            block += 1
            data = self._expanded(self._block(block), block)
            if not 0 <= count <= len(data) // max(1, self._least):
                raise BadFile(f"block {block} says that its {len(data)} bytes are {count} records")
            yield _written(count) + _written(len(data))
            yield data
            yield self._stream.read(len(self._sync))

    def _block(self, number: int) -> bytes:
        size = self._long() or 0
        if not 0 <= size <= MAX_BLOCK:
            rule = f"must have at most {MAX_BLOCK} bytes; write smaller blocks"
            raise BadFile(f"block {number} {rule} (got {size})")
        data = self._stream.read(size)
        if len(data) < size:
            raise BadFile(f"the file ends within block {number}")
        return data

    def _expanded(self, data: bytes, number: int) -> bytes:
        try:
            return _EXPANDERS[self._codec](data, MAX_BLOCK)
        except TooBig:
            rule = f"must expand to at most {MAX_BLOCK} bytes; write smaller blocks"
            raise BadFile(f"block {number} {rule} (got more, from {len(data)})") from None
        except Exception as error:  # each codec has errors of its own
            why = f"{type(error).__name__}: {error}"[:200]
            raise BadFile(f"block {number} cannot be read as {self._codec}: {why}") from error

    def _long(self) -> int | None:
        """The next number of the file; None at its end."""
        value = 0
        for i in range(_LONGEST):
            byte = self._stream.read(1)
            if not byte:
                if i == 0:
                    return None
                break
            value |= (byte[0] & 0x7F) << (7 * i)
            if byte[0] < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise BadFile("no block begins where one should")


def _written(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


class _Pieces:
    """A stream of pieces that are made when they are asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def read(self, size: int) -> bytes:
        parts: list[bytes] = []
        left = size
        while left > 0:
            while not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    return b"".join(parts)
                self._rest = piece
            part = self._rest if left >= len(self._rest) else self._rest[:left]
            self._rest = self._rest[len(part) :]
            parts.append(part)
            left -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _plain(data: bytes, limit: int) -> bytes:  # noqa: ARG001 (a block has been measured)
    return data


def _from_deflate(data: bytes, limit: int) -> bytes:
    """Without the header and checksum of zlib (RFC 1951), as Avro has it."""
    return _all_of(zlib.decompressobj(-15), data, limit)


def _from_bzip2(data: bytes, limit: int) -> bytes:
    return _all_of(bz2.BZ2Decompressor(), data, limit)


def _from_xz(data: bytes, limit: int) -> bytes:
    return _all_of(lzma.LZMADecompressor(memlimit=2 * MAX_BLOCK), data, limit)


def _all_of(expander: Any, data: bytes, limit: int) -> bytes:
    found: bytes = expander.decompress(data, limit + 1)
    if len(found) > limit:
        raise TooBig
    if not expander.eof:
        raise ValueError("the stream is incomplete")
    return found


def _checked_snappy(data: bytes, limit: int) -> bytes:
    """Avro puts the checksum of what a block expands to after it."""
    found = from_snappy(data[:-4], limit)
    if data[-4:] != struct.pack(">I", zlib.crc32(found)):
        raise ValueError("the checksum does not match")
    return found


def _from_lz4(data: bytes, limit: int) -> bytes:
    """As fastavro writes it: the length, and one block of LZ4."""
    (length,) = struct.unpack_from("<I", data)
    if length > limit:
        raise TooBig
    return bytes(lz4.block.decompress(data))


_EXPANDERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "null": _plain,
    "deflate": _from_deflate,
    "bzip2": _from_bzip2,
    "xz": _from_xz,
    "snappy": _checked_snappy,
    "zstandard": from_zstd,
    "lz4": _from_lz4,
}
