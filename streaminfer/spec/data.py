"""The section `data`: the source of events, and the places of the model's fields in an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from streaminfer.models.did_you_mean import unknown_name
from streaminfer.models.events import Field
from streaminfer.models.options import Choice, Integer, Option, OptionsError, Pairs, Section, Text
from streaminfer.spec import files
from streaminfer.spec.avro_schema import MAX_BYTES, SchemaError, check_fields, check_writable, derived, reduced

FORMATS: Final = ("json", "avro", "rows")
MAX_SCHEMA_ID: Final = (1 << 31) - 1
PARTITIONS: Final = 4

TOPIC: Final = Text(
    r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "1 to 249 of the characters A-Z a-z 0-9 . _ - and not '.' or '..'"
)
PATH: Final = Text(
    r"(?=[\s\S]{1,200}$)[^.]+(\.[^.]+){0,15}",
    "a name, or names joined by dots, which lead into nested objects: 1 to 200 characters, at most 16 names",
)


def _with_partitions(data: dict[str, Any]) -> dict[str, Any]:
    """The spec's own topic has four partitions if it does not say; an external one has what it has."""
    own = data["topic"] is None and data["partitions"] is None
    return {**data, "partitions": PARTITIONS} if own else data


DATA: Final = Section(
    (
        Option(
            "format",
            Choice(FORMATS),
            "How events are written in a record: json (one object), avro (one, in the Confluent framing) "
            "or rows (many, as a table of numbers).",
            "json",
        ),
        Option(
            "partitions",
            Integer(1, 1024),
            "Partitions of the spec's own data topic: the most workers that can share it; "
            f"not set means {PARTITIONS}. Not with topic, which has its own.",
            None,
        ),
        Option(
            "topic",
            TOPIC,
            "An external topic, which is only read. Not set means {name}.events, the spec's own.",
            None,
        ),
        Option(
            "fields",
            Pairs(PATH),
            "Where in an event a field of the model, or the key, is: a name, or a path of names joined by dots. "
            "Fields that are not here are under their own names.",
            {},
        ),
        Option(
            "timestamp",
            PATH,
            "Where in an event its time is: a name, or a path of names joined by dots; RFC 3339 or seconds since 1970 "
            "(avro: or a timestamp-millis, -micros or -nanos; rows: seconds). "
            "Not set means the record's own timestamp. Only inference.forget by seconds reads it.",
            None,
        ),
        Option(
            "schema",
            Text(r"[^\x00]{1,200}", "the name of a file, 1 to 200 characters"),
            "For avro: the file with the schema of events, relative to the spec. "
            "Not set means a record of what is read of an event: doubles, also for its time, and strings for "
            "categories and the key.",
            None,
        ),
        Option(
            "schema_id",
            Integer(0, MAX_SCHEMA_ID),
            "For avro: the schema id that stands for data.schema. Without a registry, records with another one are "
            "refused; not set, all are read by data.schema.",
            None,
        ),
    ),
    complete=_with_partitions,
)


@dataclass(frozen=True, slots=True)
class Data:
    """The source of events. `partitions` is None if `topic` is external."""

    format: str
    partitions: int | None
    topic: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    timestamp: str | None = None
    schema: str | None = None
    schema_id: int | None = None
    schema_text: str | None = None
    """What is in the file `schema`."""


def check_data(name: str, data: Mapping[str, Any]) -> None:
    """Raises OptionsError if options are right one by one but not together."""
    for option in ("schema", "schema_id"):
        if data[option] is not None and data["format"] != "avro":
            rule = f"must only be set with data.format: avro, and the format is {data['format']}; leave it out"
            raise OptionsError(option, rule, data[option])
    topic = data["topic"]
    if topic is None:
        return
    if data["partitions"] is not None:
        rule = f"must not be set together with data.topic: {topic!r} has partitions of its own; leave it out"
        raise OptionsError("partitions", rule, data["partitions"])
    if topic.startswith(f"{name}."):
        rule = (
            f"must not begin with '{name}.', as the spec's own topics do: give the spec another name, "
            f"or leave it out if the spec's own {name}.events is meant"
        )
        raise OptionsError("topic", rule, topic)


def check_format(data: Data, fields: Sequence[Field]) -> None:
    """Raises OptionsError, with the section in its name, if the data format cannot hold the fields of events. The
    model's fields come first."""
    text = next((each for each in fields if each.kind == "category"), None)
    if data.format == "rows" and text is not None:
        rule = f"must be json or avro: rows holds numbers only, and {text.label} of the model is a category"
        raise OptionsError("data.format", rule, data.format)
    if data.format != "avro":
        return
    if data.schema_text is not None:
        with _schema_of("data.schema", data.schema):
            _check_schema(data.schema_text, fields)
        return
    # One after the other, so that an error names the option that it comes from: the model's fields, the key, the time.
    known = [each for each in fields if each.kind not in {"key", "time"}]
    with _schema_of("data.fields", data.fields):
        _check_schema(derived(known), known)
    for each in fields[len(known) :]:
        known.append(each)
        with _schema_of(*_source(data, each)):
            schema = derived(known)
        with _schema_of(*_source(data, each), remedy="; name a data.schema that has it as one of them"):
            _check_schema(schema, known)


def _source(data: Data, field: Field) -> tuple[str, str | None]:
    """The option, with its value, that says where the key or the time is."""
    if field.kind == "time":
        return "data.timestamp", data.timestamp
    if field.name in data.fields:
        return f"data.fields.{field.name}", data.fields[field.name]
    return "key.field", field.name


def _check_schema(text: str, fields: Sequence[Field]) -> None:
    schema = reduced(text, dated=True)
    check_fields(schema, fields)
    check_writable(schema, fields)


@contextmanager
def _schema_of(option: str, value: object, remedy: str = "") -> Iterator[None]:
    """What is wrong with a schema, as an error of the option that it comes from."""
    try:
        yield
    except SchemaError as error:
        raise OptionsError(option, f"is not a schema that can be read here: {error}{remedy}", value) from error


def read_schema(folder: Path, file: str) -> str:
    """The text of the file that `schema` names; raises OptionsError if it cannot be read."""
    path = files.named(folder, file, "schema", "must name a file")
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1).decode()
    except (OSError, ValueError) as error:
        raise files.unreadable("schema", file, error) from None


def located(fields: Sequence[Field], paths: Mapping[str, str], others: Sequence[str] = ()) -> tuple[Field, ...]:
    """The model's fields with their places in an event; raises OptionsError for a path of a field that is never read.

    `others` are names that may have a place and are not fields of the model.
    """
    names = [*(each.name for each in fields), *others]
    for name, path in paths.items():
        if name not in names:
            raise OptionsError(f"fields.{name}", unknown_name(name, names, "field of the model"), path)
    return tuple(
        each._replace(path=tuple(paths[each.name].split("."))) if each.name in paths else each for each in fields
    )
