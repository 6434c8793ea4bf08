"""The data formats: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streaminfer.spec import Spec
from streaminfer.topics import formats
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.events.avro_events import AvroEvents
from streaminfer.wire.events.json_events import EventFormat, JsonEvents
from streaminfer.wire.events.rows import MAX_EVENTS, RowsEvents


def format_of(spec: Spec, schemas: Schemas = DECLARED) -> EventFormat:
    """The format of a spec's data topic, for its fields."""
    return FORMATS[spec.data.format](spec, schemas)


def max_events(spec: Spec) -> int:
    """The most events that a record of a spec's data topic can have."""
    return MAX_EVENTS if spec.data.format == "rows" else 1


def _written_id(spec: Spec, schemas: Schemas) -> int:
    """The registry's id, else the spec's, else the declared one."""
    given = schemas.registered.get("events", spec.data.schema_id)
    return formats()[spec.data.format].schema_id if given is None else given


FORMATS: Final[dict[str, Callable[[Spec, Schemas], EventFormat]]] = {
    "json": lambda spec, _: JsonEvents(spec.event_fields),
    "avro": lambda spec, schemas: AvroEvents(spec, _written_id(spec, schemas), schemas),
    "rows": lambda spec, schemas: RowsEvents(spec.event_fields, _written_id(spec, schemas)),
}
