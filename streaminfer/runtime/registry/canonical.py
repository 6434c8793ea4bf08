"""Whether two schemas are one: Avro's parsing canonical form, as a value.

A schema from outside is compared here and never given to an Avro library: a hostile one may kill it.
"""

from __future__ import annotations

import json
from typing import Any, Final

_KEPT: Final = ("symbols", "size")
"""Attributes that decide how bytes are read, like names and types; docs, defaults and logical types do not."""


def same(one: str, other: str) -> bool:
    """Whether two texts are the same schema; a text that is not JSON is the same as none."""
    try:
        return bool(_canonical(json.loads(one), "") == _canonical(json.loads(other), ""))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return False


def _canonical(schema: Any, namespace: str) -> Any:
    if isinstance(schema, str):
        return schema if schema in _PRIMITIVE else _full(schema, namespace)
    if isinstance(schema, list):
        return [_canonical(branch, namespace) for branch in schema]
    kind = schema["type"]
    if not isinstance(kind, str):
        return _canonical(kind, namespace)
    if kind in _PRIMITIVE:
        return kind
    found: dict[str, Any] = {"type": kind, **{name: schema[name] for name in _KEPT if name in schema}}
    if kind in {"array", "map"}:
        inner = "items" if kind == "array" else "values"
        return {**found, inner: _canonical(schema[inner], namespace)}
    name = _full(schema["name"], schema.get("namespace", namespace))
    found["name"], namespace = name, name.rpartition(".")[0]
    if kind == "record":
        fields = schema["fields"]
        found["fields"] = [(each["name"], _canonical(each["type"], namespace)) for each in fields]
    return found


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


_PRIMITIVE: Final = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
