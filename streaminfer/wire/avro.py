"""Records in the Confluent framing: a zero byte, four bytes of schema id, the Avro body.

fastavro ignores bytes after the body and lets IndexError and the like escape on bad input, so decoding here checks
that everything was consumed and turns every failure into a WireError. Only our own schemas are read: none is
recursive and none has elements without bytes, so the size of the input bounds the size of the value.
"""

from __future__ import annotations

import io
import json
import struct
from functools import cache
from typing import Any, Final

import fastavro

from streaminfer.topics import declarations, read
from streaminfer.wire.errors import BadBody, BadFrame

_HEADER: Final = struct.Struct(">bI")


@cache
def _schema(topic: str) -> tuple[int, Any, int]:
    declaration = declarations()[topic]
    if declaration.schema is None or declaration.schema_id is None:
        raise LookupError(f"topic {topic} has no schema")
    schema = fastavro.parse_schema(json.loads(read(declaration.schema)))
    return declaration.schema_id, schema, declaration.max_bytes


def encode(topic: str, value: dict[str, Any]) -> bytes:
    """A value in the schema of a topic, framed."""
    schema_id, schema, _ = _schema(topic)
    out = io.BytesIO()
    out.write(_HEADER.pack(0, schema_id))
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def decode(topic: str, data: bytes | None) -> dict[str, Any]:
    """The value of a framed record of a topic; raises WireError on anything else."""
    schema_id, schema, max_bytes = _schema(topic)
    if data is None:
        raise BadFrame("a tombstone holds no value")
    if len(data) > max_bytes:
        raise BadFrame(f"{len(data)} bytes are more than the {max_bytes} a record may have")
    if len(data) < _HEADER.size:
        raise BadFrame(f"{len(data)} bytes are too few for the five of the framing")
    magic, found = _HEADER.unpack_from(data)
    if magic != 0:
        raise BadFrame(f"the first byte is {data[0]:#04x}, not the 0x00 of the Confluent framing")
    if found != schema_id:
        raise BadFrame(f"schema id {found} is not the {schema_id} of this topic")
    stream = io.BytesIO(data)
    stream.seek(_HEADER.size)
    try:
        value: Any = fastavro.schemaless_reader(stream, schema, None)
    except Exception as error:  # fastavro raises whatever its reading stumbles on
        raise BadBody(f"{type(error).__name__}: {error}"[:200]) from error
    if stream.tell() != len(data):
        raise BadBody(f"{len(data) - stream.tell()} bytes are left over after the record")
    return dict(value)
