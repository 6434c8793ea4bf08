"""What is true or false into Avro: a schema may have a boolean for it, or a number."""

from __future__ import annotations

from typing import Any

from streaminfer.models.events import Field, truth
from streaminfer.spec.avro_schema import Schema, leaves
from streaminfer.wire.events.avro_times import put_at


class TruthWriter:
    """Puts a value that is 0 or 1, true or false into the type that a schema has for it."""

    def __init__(self, schema: Schema, field: Field) -> None:
        """`schema` has the field."""
        self._path = field.path
        self._boolean = "boolean" in list(leaves(schema, field))

    def put(self, event: dict[str, Any]) -> None:
        """Changes the event if its value has another type; what is neither stays, for others to judge."""
        put_at(event, self._path, self._as_written)

    def _as_written(self, value: Any) -> Any:
        number = truth(value)
        if number not in (0, 1):
            return value
        return number == 1 if self._boolean else int(number == 1)
