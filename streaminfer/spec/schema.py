"""The spec format as a JSON Schema, for editors; derived from the same declarations that check a spec."""

from __future__ import annotations

from typing import Any

from streaminfer.models import MODELS
from streaminfer.models.options import Option, Section, Text
from streaminfer.spec.data import DATA
from streaminfer.spec.drift import DRIFT
from streaminfer.spec.inference import EVERY
from streaminfer.spec.key import KEY_OR_FIELD
from streaminfer.spec.monitor import MONITOR
from streaminfer.spec.own_models import own
from streaminfer.spec.spec import NAME


def json_schema() -> dict[str, Any]:
    """A draft 2020-12 schema of a whole spec."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "streaminfer spec",
        "type": "object",
        "properties": {
            "name": {**NAME.json_schema(), "description": "Prefix of every topic, group and transactional id."},
            "data": _optional({**DATA.json_schema(), "description": "Where events come from."}),
            "model": {"description": "What is inferred.", "oneOf": [*map(_model, MODELS), _own_model()]},
            "inference": _optional({**EVERY.json_schema(), "description": "How events become a posterior."}),
            "drift": _optional({**DRIFT.json_schema(), "description": "When to raise an alarm, and what to do then."}),
            "key": _key(),
            "monitor": _optional(
                {**MONITOR.json_schema(), "description": "What is measured, and judged by which limits."}
            ),
        },
        "required": ["name", "model"],
        "additionalProperties": False,
    }


def _key() -> dict[str, Any]:
    """A name, or the whole section; inside of that what may be left out may be null."""
    name, section = KEY_OR_FIELD.json_schema()["oneOf"]
    text = "The field whose values are keys: one posterior for each of them. Not set means one for all events."
    return {"anyOf": [name, _with_nulls(section), {"type": "null"}], "description": text}


def _model(kind: str) -> dict[str, Any]:
    with_kind = Section((Option("kind", Text(), "The model."), *MODELS[kind].options.options))
    schema = with_kind.json_schema()
    schema["properties"]["kind"] = {"const": kind, "description": "The model."}
    return {"title": kind, **_with_nulls(schema)}


def _own_model() -> dict[str, Any]:
    """A class of the user's own: its options are not known without importing it."""
    text = "The model: a class of your own, as package.module:Class."
    kind = {"type": "string", "pattern": f"^(?:{own.PATTERN})$", "maxLength": own.LONGEST, "description": text}
    return {"title": "package.module:Class", "type": "object", "properties": {"kind": kind}, "required": ["kind"]}


def _with_nulls(schema: dict[str, Any]) -> dict[str, Any]:
    """A section in which every key that may be left out may be null as well, as in a spec."""
    entries = schema["properties"].items()
    return {**schema, "properties": {k: v if k in schema["required"] else _optional(v) for k, v in entries}}


def _optional(entry: dict[str, Any]) -> dict[str, Any]:
    inner = _with_nulls(entry) if "properties" in entry else entry
    if "anyOf" in entry:
        inner = {**entry, "anyOf": [_with_nulls(each) if "properties" in each else each for each in entry["anyOf"]]}
    said = {key: value for key, value in inner.items() if key in {"description", "default"}}
    rule = {key: value for key, value in inner.items() if key not in said}
    return {"anyOf": [rule, {"type": "null"}], **said}
