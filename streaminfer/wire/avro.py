"""Records in the Confluent framing: a zero byte, four bytes of schema id, the Avro body.

fastavro ignores bytes after the body and lets IndexError and the like escape on bad input. So decoding here checks
that everything was consumed and turns every failure into a WireError. Only our own schemas are read. None is recursive
and none has elements without bytes, so the size of the input bounds the size of the value.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import fastavro

from streaminfer.topics import declarations, formats, read
from streaminfer.wire.errors import BadBody, BadFrame, UnknownSchema

MAX_ID: Final = (1 << 31) - 1
"""Clients in other languages read the id as a signed number."""
_HEADER: Final = struct.Struct(">bI")
HEADER: Final = _HEADER.size
"""Bytes of the framing."""


def schema_text(topic: str) -> str:
    """The schema of a declared topic, as its file has it; raises LookupError if it has none."""
    file = declarations()[topic].schema
    if file is None:
        raise LookupError(f"topic {topic} has no schema")
    return read(file)


@cache
def _schema(topic: str) -> tuple[int, Any, int]:
    schema = fastavro.parse_schema(json.loads(schema_text(topic)))
    declaration = declarations()[topic]
    if declaration.schema_id is None:
        raise LookupError(f"topic {topic} has no schema id")
    return declaration.schema_id, schema, declaration.max_bytes


@cache
def declared_ids() -> frozenset[int]:
    """Those of all schemas that this version knows."""
    ids = [topic.schema_id for topic in declarations().values()] + [form.schema_id for form in formats().values()]
    ids += [number for topic in declarations().values() for number in topic.earlier]
    return frozenset(number for number in ids if number is not None)


@cache
def _earlier(topic: str) -> Mapping[int, Any]:
    """The schemas that older versions wrote, by their declared ids."""
    files = declarations()[topic].earlier
    return {number: fastavro.parse_schema(json.loads(read(file))) for number, file in files.items()}


def earlier_texts(topic: str) -> Mapping[int, str]:
    """The same as their files have them."""
    return {number: read(file) for number, file in declarations()[topic].earlier.items()}


@dataclass(frozen=True)
class Schemas:
    """The schema ids that records carry, by short topic name.

    Records are written with the ids that a registry gave (`registered`), else with the declared ones. Both are read. So
    are `earlier` ids, which a setting names for this topic, and those of the schemas that older versions wrote: their
    declared ids, and others that stand for one of them (`aliases`).
    """

    registered: Mapping[str, int] = field(default_factory=dict)
    earlier: Mapping[str, frozenset[int]] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    lookup: Callable[[int], str | None] | None = field(default=None, compare=False)
    """Gives the schema text of an id, None if no registry knows it; None without a registry to ask."""

    def id_of(self, topic: str) -> int:
        """The id that records of a topic are written with."""
        return self.registered.get(topic, _schema(topic)[0])

    def ids_of(self, topic: str) -> frozenset[int]:
        """The ids that records of a topic may carry."""
        others = (*self.earlier.get(topic, ()), *self.aliases.get(topic, ()), *_earlier(topic))
        return frozenset({_schema(topic)[0], self.id_of(topic), *others})

    def encode(self, topic: str, value: dict[str, Any]) -> bytes:
        """A value in the schema of a topic, framed."""
        return frame(self.id_of(topic), _schema(topic)[1], value)

    def decode(self, topic: str, data: bytes | None) -> dict[str, Any]:
        """The value of a framed record of a topic; raises WireError on anything else."""
        _, schema, max_bytes = _schema(topic)
        data, found = unframed(data, max_bytes)
        if found not in self.ids_of(topic):
            raise self.other(topic, found)
        wrote = _earlier(topic).get(self.aliases.get(topic, {}).get(found, found))
        if wrote is not None and found != self.id_of(topic):
            return body(wrote, data, schema)
        try:
            return body(schema, data)
        except BadBody:
            if found not in self.earlier.get(topic, ()):
                raise
            return self._of_an_older_version(topic, data)

    def other(self, topic: str, found: int) -> BadFrame:
        """The error of an id that is not one of a topic's: UnknownSchema if nothing has it."""
        known = " or ".join(map(str, sorted(self.ids_of(topic))))
        kind = BadFrame if found == 0 or found in declared_ids() else UnknownSchema
        return kind(f"schema id {found} is not the {known} of this topic")

    def _of_an_older_version(self, topic: str, data: bytes) -> dict[str, Any]:
        """A record whose id does not say which of a topic's schemas it stands for."""
        schema = _schema(topic)[1]
        for wrote in _earlier(topic).values():
            try:
                return body(wrote, data, schema)
            except BadBody:
                continue
        return body(schema, data)


DECLARED: Final = Schemas()
"""Without a registry: the fixed ids of topics.yaml."""


def unframed(data: bytes | None, max_bytes: int) -> tuple[bytes, int]:
    """A framed record and the schema id it carries; raises BadFrame on anything else."""
    if data is None:
        raise BadFrame("a tombstone holds no value")
    if len(data) > max_bytes:
        raise BadFrame(f"{len(data)} bytes are more than the {max_bytes} a record may have")
    if len(data) < HEADER:
        raise BadFrame(f"{len(data)} bytes are too few for the five of the framing")
    magic, found = _HEADER.unpack_from(data)
    if magic != 0:
        raise BadFrame(f"the first byte is {data[0]:#04x}, not the 0x00 of the Confluent framing")
    return data, found


def framing(schema_id: int) -> bytes:
    """What stands before the body of a record."""
    return _HEADER.pack(0, schema_id)


def frame(schema_id: int, schema: Any, value: Any) -> bytes:
    """A value in a parsed schema, framed."""
    out = io.BytesIO()
    out.write(framing(schema_id))
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def body(schema: Any, data: bytes, reader: Any = None) -> dict[str, Any]:
    """The value of a framed record in one of our own schemas, as `reader` has it; raises BadBody."""
    stream = io.BytesIO(data)
    stream.seek(_HEADER.size)
    try:
        value: Any = fastavro.schemaless_reader(stream, schema, reader)
    except EOFError as error:
        raise BadBody("the record ends too early for its schema") from error
    except Exception as error:  # fastavro raises whatever its reading stumbles on
        raise BadBody(f"{type(error).__name__}: {error}"[:200]) from error
    if stream.tell() != len(data):
        raise BadBody(f"{len(data) - stream.tell()} bytes are left over after the record")
    return dict(value)
