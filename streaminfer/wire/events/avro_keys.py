"""Keys and categories into Avro: a whole number and its decimal text are one, and a schema may have only one."""

from __future__ import annotations

from typing import Any

from streaminfer.models.events import Field
from streaminfer.models.keys import label_of
from streaminfer.spec.avro_schema import Schema, leaves
from streaminfer.wire.events.avro_times import put_at


class KeyWriter:
    """Puts a key or category that is a number into the type that a schema has for it. Texts stay as they are."""

    def __init__(self, schema: Schema, field: Field) -> None:
        """`schema` has the field."""
        self._path = field.path
        self._text = field.kind == "category" or "string" in list(leaves(schema, field))

    def put(self, event: dict[str, Any]) -> None:
        """Changes the event if its key is a number; what is not a key stays, for others to judge."""
        put_at(event, self._path, self._as_written)

    def _as_written(self, value: Any) -> Any:
        if isinstance(value, str):
            return value
        try:
            label = label_of(value).decode()
        except (TypeError, ValueError):
            return value
        return label if self._text else int(label)
