"""The forms of all JSON that is sent and answered, as OpenAPI has them."""

from __future__ import annotations

from typing import Any, Final

from streaminfer.measuring.judging.checks import QUESTIONS
from streaminfer.measuring.judging.verdict import ANSWERS
from streaminfer.measuring.measurement import STATUSES

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
WHOLE: Final[Schema] = {"type": "integer", "minimum": 0}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
NUMBERS: Final[Schema] = {"description": "a number, or lists of numbers; null is one that does not exist"}


def maybe(schema: Schema) -> Schema:
    """Also null."""
    return {**schema, "type": [schema["type"], "null"]}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def form(members: Schema, optional: Schema | None = None, closed: bool = True) -> Schema:
    """An object that has all `members`, may have `optional` ones, and if it is closed no others."""
    found: Schema = {"type": "object", "required": list(members), "properties": {**members, **(optional or {})}}
    return {**found, "additionalProperties": False} if closed else found


def by_name(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


_WHICH: Final[Schema] = {
    "name": TEXT, "key": maybe(TEXT), "version": WHOLE, "n_events": WHOLE, "n_effective": NUMBER, "n_lost": WHOLE,
    "n_dead_lettered": WHOLE, "n_damped": WHOLE, "n_rejected": WHOLE, "n_unconverged": WHOLE, "n_dropped": WHOLE,
    "staleness": NUMBER, "exactness": TEXT, "method": TEXT, "model": TEXT,
}  # fmt: skip
_WHERE: Final[Schema] = {
    "score": maybe(NUMBER), "drift": maybe({"type": "object"}), "epoch": WHOLE, "frontier": by_name(WHOLE),
    "read_to": WHOLE, "fingerprint": TEXT, "created_at": TEXT,
}  # fmt: skip
_KEY: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 256}
_KEY_SUMMARY: Final = form({"key": TEXT, "version": WHOLE, "n_events": WHOLE, "n_effective": NUMBER})
_CURVE: Final = form({name: listed(maybe(NUMBER)) for name in ("mean", "lower", "upper")})
_VALUE: Final = form(
    {"name": TEXT, "coordinate": TEXT, **{name: maybe(NUMBER) for name in ("value", "se", "lower", "upper")}}
)
_STATUS: Final = one_of(*STATUSES)

SCHEMAS: Final[dict[str, Schema]] = {
    "Problem": form(
        {"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT},
        {"field": TEXT, "rule": TEXT, "value": TEXT, "remedy": TEXT,
         "progress": form({"read": WHOLE, "total": WHOLE})},
    ),
    "Posteriors": form({
        "posteriors": listed(form({
            "name": TEXT, "model": TEXT, "method": TEXT, "kind": TEXT, "keyed": FLAG, "fingerprint": TEXT,
            "version": maybe(WHOLE), "n_events": maybe(WHOLE), "progress": TEXT, "href": TEXT,
        })),
    }),
    "Posterior": form(
        {**_WHICH, **_WHERE},
        {"family": TEXT, "parameters": by_name({"type": ["object", "array"]}), "natural": {},
         "log_evidence": maybe(NUMBER), "sampling": {"type": "object"}, "truncated": {}, "n_keys": WHOLE,
         "keys": listed(_KEY_SUMMARY), "next": maybe(TEXT)},
    ),
    "Keys": form({"name": TEXT, "keys": listed(_KEY_SUMMARY), "next": maybe(TEXT)}),
    "Verdict": form({
        "name": TEXT, "version": maybe(WHOLE), "at": TEXT,
        "verdict": one_of(*ANSWERS),
        "reasons": listed(form({
            "question": one_of(*QUESTIONS), "status": _STATUS, "sentence": TEXT, "remedy": TEXT,
        })),
    }),
    "History": form({
        "name": TEXT, "versions": listed(WHOLE), "at": listed(WHOLE), "n_events": listed(WHOLE),
        "scores": listed(maybe(NUMBER)), "drift": listed(form({"version": WHOLE, "at": WHOLE, "n_events": WHOLE})),
        "interval": NUMBER, "parameters": by_name(_CURVE), "coordinates": listed(TEXT),
    }),
    "Sample": form({
        "name": TEXT, "key": maybe(TEXT), "version": WHOLE, "n": WHOLE, "seed": WHOLE, "draws": by_name(NUMBERS),
    }),
    "Rows": form(
        {"rows": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "object"}}},
        {"interval": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "key": maybe(_KEY)},
    ),
    "Predictions": form({
        "name": TEXT, "version": maybe(WHOLE), "interval": NUMBER,
        "predictions": listed(form({"row": WHOLE}, {"error": TEXT}, closed=False)),
    }),
    "Measurements": form({
        "name": TEXT,
        "measurements": listed(form({
            "id": WHOLE, "check": TEXT, "subject": TEXT, "status": _STATUS, "sentence": TEXT, "remedy": TEXT,
            "target": TEXT, "n_draws": WHOLE, "n_data": WHOLE, "seconds": NUMBER, "values": listed(_VALUE),
            "curves": by_name(listed(listed(NUMBER))), "version": WHOLE, "base_version": WHOLE, "segment": WHOLE,
            "n_events": WHOLE, "measured_at": TEXT,
        })),
    }),
    "Services": form({
        "name": TEXT,
        "services": listed(form({
            "service": TEXT, "instance": TEXT, "host": TEXT, "state": one_of("healthy", "starting", "silent"),
            "restarts": WHOLE, "started_at": TEXT, "last_beat_at": TEXT, "seconds_since": NUMBER,
            "counters": by_name(NUMBER),
        })),
    }),
    "DeadLetters": form({
        "name": TEXT,
        "dead_letters": listed(form({
            "id": WHOLE, "topic": TEXT, "partition": WHOLE, "offset": WHOLE, "reason": TEXT, "value": maybe(TEXT),
            "value_base64": maybe(TEXT), "length": WHOLE, "key_base64": maybe(TEXT),
            "headers": listed(listed(TEXT)), "cut": FLAG,
        })),
        "next": maybe(WHOLE),
    }),
    "Token": form({"token": {"type": "string", "minLength": 1, "maxLength": 1000}}),
    "Description": form({"openapi": TEXT, "info": {"type": "object"}, "paths": {"type": "object"},
                         "components": {"type": "object"}}, closed=False),
}  # fmt: skip
