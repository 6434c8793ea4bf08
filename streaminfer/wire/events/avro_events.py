"""The format `avro`: one event a record in the Confluent framing, in any writer's schema that has the model's fields.

With a registry the id in the framing says which schema; `data.schema_id` is always that of `data.schema`. Without a
registry every record is read by `data.schema`. If `data.schema_id` is set, the record must carry that id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import fastavro
import numpy as np
from fastavro.validation import validate
from numpy.typing import NDArray

from streaminfer.models import keys
from streaminfer.models.checks import check_ahead, check_matrix, check_values
from streaminfer.models.events import Checked, Events, Field, Kind
from streaminfer.spec import Spec
from streaminfer.spec.avro_schema import Schema, SchemaError, check_fields, defaults_of, reduced
from streaminfer.topics import declarations
from streaminfer.wire.avro import HEADER, Schemas, frame, framing, unframed
from streaminfer.wire.errors import WireError
from streaminfer.wire.events.avro_keys import KeyWriter
from streaminfer.wire.events.avro_times import TimeWriter
from streaminfer.wire.events.avro_truths import TruthWriter
from streaminfer.wire.events.json_events import Bad, Decoded, Stamps, instead
from streaminfer.wire.events.json_values import parse_json
from streaminfer.wire.events.plan import Plan
from streaminfer.wire.events.runs import Run

MAX_BYTES: Final = declarations()["events"].max_bytes
MAX_PLANS: Final = 1000
"""Writers' schemas that are remembered; beyond that all are asked for anew."""


class Writer(Protocol):
    """Puts one field of an event into the type that a schema has for it."""

    def put(self, event: dict[str, Any]) -> None:
        """Changes the event; what cannot be of that type stays, for others to judge."""


_WRITERS: Final[dict[Kind, Callable[[Schema, Field], Writer]]] = {
    "binary": TruthWriter,
    "category": KeyWriter,
    "key": KeyWriter,
    "time": TimeWriter,
}
"""By the kinds of fields whose values a schema may have in another type than an event."""


class AvroEvents:
    """Avro records with the fields of one spec, which are written with `schema_id`."""

    events_per_record = 1

    def __init__(self, spec: Spec, schema_id: int, schemas: Schemas) -> None:
        self._fields, self._id, self._lookup = spec.event_fields, schema_id, schemas.lookup
        self._declared = spec.data.schema_id
        own = reduced(spec.event_schema, dated=True)
        self._defaults = defaults_of(own, self._fields)
        self._own = Plan(own, self._fields, self._defaults, HEADER)
        self._written = fastavro.parse_schema(reduced(spec.event_schema))
        self._writers = [_WRITERS[each.kind](own, each) for each in self._fields if each.kind in _WRITERS]
        self._plans: dict[int, Plan | str] = {}
        self.columns = _doubles(self._written)

    def decode(self, values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
        """Raises Unavailable if a registry must be asked and does not answer: then nothing was judged."""
        found = _Found(self._fields, stamps)
        by_id: dict[int, list[int]] = {}
        for place, value in enumerate(values):
            try:
                by_id.setdefault(unframed(value, MAX_BYTES)[1], []).append(place)
            except WireError as error:
                found.bad.append(Bad(place, instead(self._fields, value, "not Avro") or f"not Avro: {error}"))
        for schema_id, places in by_id.items():
            plan = self._plan(schema_id)
            if isinstance(plan, str):
                found.bad += [Bad(place, plan) for place in places]
            else:
                rest = self._read_fast(plan, values, places, found)
                self._read_each(plan, values, rest, found)
        return found.decoded()

    def encode(self, *runs: Run) -> list[bytes]:
        found = []
        for run in runs:
            found += self._packed(run) if isinstance(run, np.ndarray) else [self._encoded(row) for row in run]
        return found

    def _read_fast(
        self, plan: Plan, values: Sequence[bytes | None], places: Sequence[int], found: _Found
    ) -> Sequence[int]:
        """Bodies of one width by numpy, all at once; returns the places that are left."""
        if plan.dtype is None:
            return places
        size = plan.dtype.itemsize
        same = [place for place in places if len(values[place] or b"") == size]
        if same:
            table = np.frombuffer(b"".join(values[place] or b"" for place in same), plan.dtype)
            with np.errstate(invalid="ignore"):  # a NaN that signals is refused below
                columns = [table[str(j)].astype(np.float64) for j in range(len(self._fields))]
            found.put(same, check_matrix(found.fields, np.stack(columns, axis=1)))
        return [place for place in places if len(values[place] or b"") != size] if len(same) < len(places) else []

    def _read_each(self, plan: Plan, values: Sequence[bytes | None], places: Sequence[int], found: _Found) -> None:
        rows, read = [], []
        for place in places:
            try:
                rows.append(plan.read(values[place] or b""))
                read.append(place)
            except WireError as error:
                found.bad.append(Bad(place, f"not Avro: {error}"[:300]))
        found.put(read, check_values(found.fields, rows))

    def _plan(self, schema_id: int) -> Plan | str:
        """How records of an id are read, or why they are not."""
        if schema_id == self._declared or (self._lookup is None and self._declared is None):
            return self._own
        if self._lookup is None:
            return f"schema id {schema_id} is not the {self._declared} of data.schema_id, and there is no registry"
        if schema_id not in self._plans:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            text = self._lookup(schema_id)
            if text is None:
                return f"schema id {schema_id} is not in the registry"
            self._plans[schema_id] = self._made(schema_id, text)
        return self._plans[schema_id]

    def _made(self, schema_id: int, text: str) -> Plan | str:
        try:
            schema = reduced(text, dated=True)
            check_fields(schema, self._fields, self._defaults)
        except SchemaError as error:
            return f"schema id {schema_id}: {error}"[:300]
        return Plan(schema, self._fields, self._defaults, HEADER)

    def _packed(self, matrix: NDArray[np.float64]) -> list[bytes]:
        """A record of each row, which is nothing but doubles."""
        packed = np.empty(len(matrix), [("header", f"V{HEADER}"), ("body", "<f8", (len(self.columns),))])
        packed["header"] = np.void(framing(self._id))
        packed["body"] = matrix
        data, size = packed.tobytes(), packed.itemsize
        return [data[at : at + size] for at in range(0, len(data), size)]

    def _encoded(self, row: bytes) -> bytes:
        try:
            event = parse_json(row)
            if not isinstance(event, dict):
                return row
            for writer in self._writers:
                writer.put(event)
            if validate(event, self._written, raise_errors=False):
                return frame(self._id, self._written, event)
        except (ValueError, RecursionError, OverflowError, TypeError):
            pass
        return row


def _doubles(schema: Any) -> Sequence[str]:
    """The fields of a schema that has nothing but doubles; none if it has anything else."""
    fields = schema["fields"]
    return tuple(each["name"] for each in fields) if all(each["type"] == "double" for each in fields) else ()


class _Found:
    """The events of records that were read in several ways, and the bad records."""

    def __init__(self, fields: Sequence[Field], stamps: Stamps | None) -> None:
        self.fields, self._stamps = fields, stamps
        self._parts: list[tuple[NDArray[np.intp], Events]] = []
        self.bad: list[Bad] = []

    def put(self, places: Sequence[int], checked: Checked) -> None:
        """The rows that a check passed, and those that it did not, of records at some places."""
        at = np.array(places, dtype=np.intp)
        if self._stamps is not None:
            checked = check_ahead(self.fields, checked, self._stamps[at])
        self._parts.append((at[checked.places(len(at))] if checked.rejected else at, checked.events))
        self.bad += [Bad(places[each.row], each.reason) for each in checked.rejected]

    def decoded(self) -> Decoded:
        """All events in the order of their records."""
        parts = [part for part in self._parts if part[1].n] or self._parts
        if not parts:
            return Decoded(check_values(self.fields, []).events, np.empty(0, dtype=np.intp), sorted(self.bad))
        at, events = parts[0]
        if len(parts) > 1:
            at = np.concatenate([places for places, _ in parts])
            order = np.argsort(at)
            at, events = at[order], _joined([events for _, events in parts]).only(order)
        return Decoded(events, at, sorted(self.bad))


def _joined(parts: Sequence[Events]) -> Events:
    """One after the other, without documents, as those are read from JSON only."""
    found = [part.keys for part in parts if part.keys is not None]
    return Events(np.concatenate([part.numbers for part in parts]), keys.joined(found) if found else None)
