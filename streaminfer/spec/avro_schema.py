"""Avro schemas from outside: checked, and reduced to what decides how bytes are read.

A hostile schema may kill an Avro library: one that is recursive, or whose array elements have no bytes. So a text is
read here as JSON, bounded, and never given to a library as it came. Logical types are read as the types below them.
Only moments are kept, if a field is the time of events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import fastavro

from streaminfer.models.events import Field

MAX_BYTES: Final = 256 << 10
MAX_DEPTH: Final = 16
MAX_TYPES: Final = 10_000
"""Types in a schema, with those that are used by name counted at every use."""
MAX_FIXED: Final = 1 << 20

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
NUMBERS: Final = frozenset(("int", "long", "float", "double"))
TRUTHS: Final = NUMBERS | {"boolean"}
"""The types of a field that is 0 or 1."""
MOMENTS: Final = {
    f"{local}timestamp-{unit}": per_second
    for unit, per_second in (("millis", 10**3), ("micros", 10**6), ("nanos", 10**9))
    for local in ("", "local-")
}
"""Logical types of a long that counts parts of a second since 1970, and how many a second has."""
_OF_TIME: Final = frozenset(("int", "long", "double", "string"))
"""No float: in this century its steps are of two minutes."""
TEXTS: Final = frozenset(("string", "enum"))
KEYS: Final = TEXTS | {"int", "long"}
_DEFAULTS: Final = {"category": str, "key": str | int}
"""The types of defaults of fields that are not numbers."""
_WIDTHS: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""The fewest bytes that a value of a primitive type has."""

Schema = str | list[Any] | dict[str, Any]
"""A reduced schema: a primitive's name, a union's branches, or a mapping. Every named type is written out in full."""


class SchemaError(ValueError):
    """A schema that is not read; the text says why, and repeats nothing of it: it may not have been meant."""


def reduced(text: str, dated: bool = False) -> Schema:
    """The schema of a text; raises SchemaError if it is not one, is recursive or is too large.

    If it is `dated`, a long of one of the MOMENTS is a mapping that keeps its logical type.
    """
    if len(text) > MAX_BYTES:
        raise SchemaError(f"has {len(text)} characters, more than {MAX_BYTES}")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"is not JSON: {error}"[:200]) from None
    schema = _Reduction(dated).of(document, "", 0)
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise SchemaError("must be a record with named fields")
    return schema


def check_fields(schema: Schema, fields: Sequence[Field], defaults: Mapping[str, Any] | None = None) -> None:
    """Raises SchemaError if the fields of a model cannot be read by a schema; `defaults` are for those it lacks."""
    for field in fields:
        types = list(leaves(schema, field))
        if not types and field.name not in (defaults or {}):
            raise SchemaError(f"{field.label}: is missing in the schema")
        allowed = _allowed(field)
        for found in types:
            name = found["type"] if isinstance(found, dict) else found
            if name not in allowed:
                raise SchemaError(f"{field.label}: is of type {name}, it must be one of {', '.join(sorted(allowed))}")


def _allowed(field: Field) -> frozenset[str]:
    if field.kind == "time":
        return _OF_TIME
    if field.kind == "binary":
        return TRUTHS
    return KEYS if field.kind == "key" else TEXTS if field.is_text else NUMBERS


def defaults_of(schema: Schema, fields: Sequence[Field]) -> dict[str, Any]:
    """The defaults that a schema gives to a model's fields, by field name; only those that an event could hold."""
    found: dict[str, Any] = {}
    for field in fields:
        here: Any = schema
        entry: Any = {}
        for name in field.path:
            inner = here.get("fields", []) if isinstance(here, dict) else []
            entry = next((each for each in inner if each["name"] == name), {})
            here = entry.get("type")
        default = entry.get("default")
        if field.kind == "time" and isinstance(default, str | int | float):
            found[field.name] = default if isinstance(default, str) else default / max(map(per_second, branches(here)))
        elif isinstance(default, _DEFAULTS.get(field.kind, int | float)):
            found[field.name] = default
    return found


def check_writable(schema: Schema, fields: Sequence[Field]) -> None:
    """Raises SchemaError if records cannot be written by a reduced schema. Its names may be odd, its defaults of a
    wrong type, or a time may be one number in seconds and another in parts of them."""
    for field in fields:
        if field.kind == "time":
            unit_of(schema, field)
    try:
        fastavro.parse_schema(schema)
    except Exception as error:  # fastavro has several, and TypeError and the like escape it
        raise SchemaError(f"is not valid Avro: {type(error).__name__}") from None


def derived(fields: Sequence[Field]) -> str:
    """The schema of events that hold these fields and nothing else: doubles, and strings for categories and the key.

    A time is a double too, in seconds since 1970.
    """
    root: dict[str, Any] = {}
    for field in fields:
        if not all(_NAME.fullmatch(name) for name in field.path):
            raise SchemaError(
                f"{field.label}: must have a name that Avro allows: letters, digits and _, not beginning with a digit"
            )
        here = root
        for name in field.path[:-1]:
            here = here.setdefault(name, {})
            if not isinstance(here, dict):
                raise SchemaError(f"{field.label}: is inside the value of another field")
        if isinstance(here.get(field.path[-1]), dict):
            raise SchemaError(f"{field.label}: is a value, but another field is inside it")
        here.setdefault(field.path[-1], "string" if field.is_text else "double")
    return json.dumps(_derived(root, "Event"), sort_keys=True)


def _derived(node: Any, name: str) -> Any:
    if isinstance(node, str):
        return node
    fields = [{"name": key, "type": _derived(inner, f"{name}_{i}")} for i, (key, inner) in enumerate(node.items())]
    return {"type": "record", "name": name, "fields": fields}


def branches(schema: Schema) -> list[Any]:
    """The types that a value may have."""
    return schema if isinstance(schema, list) else [schema]


def per_second(schema: Schema) -> int:
    """How many of a number of this type make a second, if it is a time."""
    return MOMENTS[schema["logicalType"]] if isinstance(schema, dict) and _is_moment(schema) else 1


def is_local(schema: Schema) -> bool:
    """Whether it is a logical type of moments without a zone."""
    return isinstance(schema, dict) and str(schema.get("logicalType")).startswith("local-")


def unit_of(schema: Schema, field: Field) -> int:
    """How many of a whole number at a field make a second; raises SchemaError if a union has several units."""
    units = {per_second(found) for found in leaves(schema, field) if found in ("int", "long") or _is_moment(found)}
    if len(units) > 1:
        raise SchemaError(f"{field.label}: is a whole number in several units, it must be in one")
    return units.pop() if units else 1


def _is_moment(schema: Schema) -> bool:
    return isinstance(schema, dict) and "logicalType" in schema


def width(schema: Schema) -> int:
    """The fewest bytes that a value has."""
    if isinstance(schema, str):
        return _WIDTHS[schema]
    if isinstance(schema, list):
        return 1
    match schema["type"]:
        case "record":
            return sum(width(each["type"]) for each in schema["fields"])
        case "fixed":
            return int(schema["size"])
    return 1


def leaves(schema: Schema, field: Field) -> Iterator[Any]:
    """The types at the end of a field's path, without null; none if it is missing."""
    types = [each for each in branches(schema) if each != "null"]
    for name in field.path:
        inner = []
        for each in types:
            if not isinstance(each, dict) or each["type"] != "record":
                raise SchemaError(f"{field.label}: {name} is looked for in something that is not a record")
            found = next((entry["type"] for entry in each["fields"] if entry["name"] == name), None)
            if found is None:
                return
            inner += [branch for branch in branches(found) if branch != "null"] or ["null"]
        types = inner
    yield from types


class _Reduction:
    """One pass over a document, which counts types and remembers those with a name."""

    def __init__(self, dated: bool) -> None:
        self._dated, self._types = dated, 0
        self._named: dict[str, Any] = {}

    def of(self, schema: Any, namespace: str, depth: int) -> Any:
        self._count(depth)
        if isinstance(schema, str):
            return schema if schema in _WIDTHS else self._reference(schema, namespace, depth)
        if isinstance(schema, list):
            return self._union([self.of(branch, namespace, depth + 1) for branch in schema])
        if not isinstance(schema, dict) or "type" not in schema:
            raise SchemaError("has a type that is not a name, a list or a mapping with a type")
        kind = schema["type"]
        if kind in ("array", "map"):
            return self._collection(kind, schema, namespace, depth)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declared(kind, schema, namespace, depth)
        found, logical = self.of(kind, namespace, depth + 1), schema.get("logicalType")
        if self._dated and kind == "long" and isinstance(logical, str) and logical in MOMENTS:
            return {"type": "long", "logicalType": logical}
        return found

    def _union(self, found: list[Any]) -> Any:
        if not found or any(isinstance(branch, list) for branch in found):
            raise SchemaError("has a union without branches, or with a union in it")
        return found

    def _collection(self, kind: str, schema: dict[str, Any], namespace: str, depth: int) -> Any:
        inner = "items" if kind == "array" else "values"
        found = self.of(schema.get(inner), namespace, depth + 1)
        if kind == "array" and width(found) == 0:
            raise SchemaError("has an array whose elements have no bytes")
        return {"type": kind, inner: found}

    def _declared(self, kind: str, schema: dict[str, Any], namespace: str, depth: int) -> Any:
        name = _full(_text(schema.get("name"), "a name"), schema.get("namespace") or namespace)
        if name in self._named:
            raise SchemaError("declares a name twice")
        self._named[name] = None  # not yet whole: a use inside itself is recursion
        made: dict[str, Any] = {"type": "record" if kind == "error" else kind, "name": f"T{self._types}"}
        if kind == "enum":
            made["symbols"] = [_text(each, "a symbol") for each in _list(schema.get("symbols"), "symbols")]
        elif kind == "fixed":
            made["size"] = _size(schema.get("size"))
        else:
            made["fields"] = self._fields(schema, name.rpartition(".")[0], depth)
        self._named[name] = made
        return made

    def _fields(self, schema: dict[str, Any], namespace: str, depth: int) -> list[Any]:
        made: dict[str, Any] = {}
        for each in _list(schema.get("fields"), "fields"):
            if not isinstance(each, dict):
                raise SchemaError("has a field that is not a mapping")
            name = _text(each.get("name"), "the name of a field")
            if name in made:
                raise SchemaError("has a field twice in one record")
            made[name] = {"name": name, "type": self.of(each.get("type"), namespace, depth + 1)}
            if "default" in each:
                made[name]["default"] = each["default"]
        return list(made.values())

    def _reference(self, name: str, namespace: str, depth: int) -> Any:
        full = _full(name, namespace)
        if full not in self._named:
            full = name
        if full not in self._named:
            raise SchemaError("uses a name that is not a type")
        kept = self._named[full]
        if kept is None:
            raise SchemaError("is recursive: a type holds itself")
        return self._copy(kept, depth)

    def _copy(self, schema: Any, depth: int) -> Any:
        """A type that is used again stands there once more, counted, under a name of its own."""
        self._count(depth)
        if isinstance(schema, list):
            return [self._copy(branch, depth + 1) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        made = {**schema, "name": f"T{self._types}"} if "name" in schema else dict(schema)
        for inner in {"items", "values"} & made.keys():
            made[inner] = self._copy(made[inner], depth + 1)
        if "fields" in made:
            made["fields"] = [{**each, "type": self._copy(each["type"], depth + 1)} for each in made["fields"]]
        return made

    def _count(self, depth: int) -> None:
        self._types += 1
        if depth > MAX_DEPTH or self._types > MAX_TYPES:
            raise SchemaError(f"must be nested at most {MAX_DEPTH} deep and have at most {MAX_TYPES} types")


def _full(name: str, namespace: Any) -> str:
    return name if "." in name or not isinstance(namespace, str) or not namespace else f"{namespace}.{name}"


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise SchemaError(f"has something that should be {what} and is not a text")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise SchemaError(f"has {what} that are not a list")
    return value


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_FIXED:
        raise SchemaError(f"has a fixed type whose size is not from 0 to {MAX_FIXED}")
    return value
