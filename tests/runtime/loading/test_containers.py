"""Avro files of every codec, and blocks that say or hide something else than they should."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import lz4.block
import pytest
import snappy
import zstandard

from streaminfer.runtime.loading import containers
from streaminfer.runtime.loading.files import Counted, FileError
from streaminfer.runtime.loading.readers import read_avro
from streaminfer.spec import parse_spec

SPEC = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
SCHEMA: Any = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "k", "type": "long"}, {"name": "s", "type": "string"}],
}
SYNC = bytes(range(16))


def deflated(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


def snappied(data: bytes) -> bytes:
    return bytes(snappy.compress(data)) + struct.pack(">I", zlib.crc32(data))


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": deflated,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "snappy": snappied,
    "zstandard": zstandard.compress,
    "lz4": lambda data: bytes(lz4.block.compress(data)),
}
"""Written out by the specification of Avro; lz4 as fastavro has it."""


def long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()


def head(codec: str, schema: Any = SCHEMA) -> bytes:
    """The header as fastavro writes it, with another codec."""
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    parts = [long(len(name)) + name.encode() + long(len(value)) + value for name, value in meta.items()]
    return b"Obj\x01" + long(len(meta)) + b"".join(parts) + long(0) + SYNC


def block(data: bytes, count: int, sync: bytes = SYNC) -> bytes:
    return long(count) + long(len(data)) + data + sync


def bodies(*counts: int, text: str = "") -> bytes:
    return b"".join(long(k) + long(len(text)) + text.encode() for k in counts)


def read(data: bytes) -> list[Any]:
    return [json.loads(row) for row in read_avro(SPEC, Counted(io.BytesIO(data), "f"), "f")]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(codec: str) -> None:
    pack = CODECS[codec]
    data = head(codec) + block(pack(bodies(1, 2)), 2) + block(pack(b""), 0) + block(pack(bodies(3, text="x" * 5000)), 1)
    assert [row["k"] for row in read(data)] == [1, 2, 3]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_files_that_fastavro_writes(codec: str, tmp_path: Path) -> None:
    rows = [{"k": i, "s": "x" * (i % 50)} for i in range(3000)]
    with (tmp_path / "f.avro").open("wb") as stream:
        fastavro.writer(stream, SCHEMA, rows, codec=codec, sync_interval=1000)
    assert read((tmp_path / "f.avro").read_bytes()) == rows


@pytest.mark.parametrize("codec", [name for name in CODECS if name != "null"])
def test_a_block_that_expands_too_far_is_refused_without_being_expanded(codec: str) -> None:
    bomb = CODECS[codec](bytes(containers.MAX_BLOCK + 1))
    assert len(bomb) < containers.MAX_BLOCK // 15
    data = head(codec) + block(CODECS[codec](bodies(1)), 1) + block(bomb, 1)
    tracemalloc.start()
    with pytest.raises(FileError) as caught:
        read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(caught.value) == (
        "f: cannot be read after record 1: block 2 must expand to at most 67108864 bytes; write smaller blocks "
        f"(got more, from {len(bomb)})"
    )
    assert peak < 3 * containers.MAX_BLOCK


def test_what_a_block_may_expand_to_is_read() -> None:
    n = 60_000_000
    data = head("deflate") + block(deflated(long(7) + long(n) + bytes(n)), 1)
    with pytest.raises(FileError, match="f: row 1 is an event of more than the 1048576 bytes of a record"):
        read(data)


FILES: dict[str, tuple[bytes, str]] = {
    "a codec of its own": (head("brotli"), "f: is not an Avro file that can be read: the codec must be one of null, "),
    "a codec that is no text": (head("null").replace(b"null", b"\xff" * 4),
                                "f: is not an Avro file that can be read: "),
    "another file": (b"Obj\x02" + head("null")[4:], "f: is not an Avro file that can be read: its first bytes are not"),
    "many records of few bytes": (head("null") + block(bodies(1), 3),
                                  "f: cannot be read after record 0: block 1 says that its 2 bytes are 3 records"),
    "less than no records": (head("null") + block(bodies(1), -1),
                             "f: cannot be read after record 0: block 1 says that its 2 bytes are -1 records"),
    "a length below nothing": (head("null") + long(1) + long(-5),
                               "f: cannot be read after record 0: block 1 must have "),
    "a length of nearly all": (head("null") + long(1) + long(2**62),
                               "f: cannot be read after record 0: block 1 must have at most 67108864 bytes; "),
    "the end within": (head("null") + block(bodies(1), 1) + block(bodies(1, 2), 2)[:-18],
                       "f: cannot be read after record 1: the file ends within block 2"),
    "no length": (head("null") + long(1), "f: cannot be read after record 0: "),
    "an endless number": (head("null") + b"\xff" * 50,
                          "f: cannot be read after record 0: no block begins where one should"),
    "another marker": (head("null") + block(bodies(1), 1, sync=bytes(16)), "f: cannot be read after record 1: "),
    "no deflate": (head("deflate") + block(b"\xff" * 9, 1),
                   "f: cannot be read after record 0: block 1 cannot be read as deflate: "),
    "half of it": (head("deflate") + block(deflated(bodies(*range(99)))[:-9], 99),
                   "f: cannot be read after record 0: block 1 cannot be read as deflate: ValueError: the stream "
                    "is incomplete"),
    "another checksum": (head("snappy") + block(snappied(bodies(1))[:-1] + b"?", 1),
                         "f: cannot be read after record 0: block 1 cannot be read as snappy: ValueError: the "
                          "checksum does not match"),
    "records of no bytes": (head("null", {"type": "record", "name": "R", "fields": [{"name": "k", "type": "null"}]})
                            + block(b"", 2**60),
                            "f: cannot be read after record 0: block 1 says that its 0 bytes are "),
}  # fmt: skip


@pytest.mark.parametrize("what", FILES)
def test_files_that_are_not_what_they_say(what: str) -> None:
    data, message = FILES[what]
    with pytest.raises(FileError) as caught:
        read(data)
    assert str(caught.value).startswith(message)
