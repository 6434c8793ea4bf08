"""The files of the chart that follow from the declaration of topics, the table of roles and the spec format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

from streaminfer.bus.broker.settings import Settings
from streaminfer.bus.broker.topics import LARGEST_TIME, kept_as
from streaminfer.bus.protocol import Topic
from streaminfer.runtime.role import Role
from streaminfer.sampling.choices.options import OPTIONS
from streaminfer.services import ROLES
from streaminfer.spec import json_schema, parse_spec
from streaminfer.spec.data import PARTITIONS
from streaminfer.topics import Declaration, declarations
from streaminfer.variational.methods import METHODS

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "helm" / "streaminfer"
HEAD: Final = "# Written by `make chart`; do not edit.\n"
MODEL: Final = {"kind": "logistic_regression", "features": ["a"], "target": "y"}
INFERENCE: Final[tuple[dict[str, Any], ...]] = (
    {"method": "svb"},
    {"method": "svi"},
    {"method": "mala"},
    {"method": "mala", "combine": "average"},
)
"""Methods that have every role between them."""


def files() -> dict[Path, str]:
    """Every derived file of the chart with its content."""
    return {
        CHART / "files" / "declared.yaml": HEAD + yaml.safe_dump(declared(), sort_keys=False, width=1000),
        CHART / "files" / "alerts.yaml": (ROOT / "docs" / "monitoring" / "alerts.yaml").read_text(),
        CHART / "values.schema.json": _with_spec((CHART / "values.schema.json").read_text()),
    }


def declared() -> dict[str, Any]:
    """What templates must know."""
    chains = json_schema()["properties"]["inference"]["anyOf"][0]["properties"]["chains"]["default"]
    return {
        "defaults": {"method": "svb", "partitions": PARTITIONS, "chains": chains},
        "workers": {method.name: method.worker for method in METHODS.values()},
        "samplers": list(OPTIONS),
        "roles": {role.name: _role(role) for role in ROLES.values()},
        "topics": [_topic(each) for each in declarations().values()],
    }


def _role(role: Role) -> dict[str, Any]:
    """Its names without that of the spec, which is `x` here."""
    specs = [parse_spec({"name": "x", "model": MODEL, "inference": each}) for each in INFERENCE]
    spec = next(each for each in specs if role.needed(each))
    writer = None if role.writer is None else role.writer(spec).removeprefix("x.")
    return {"short": role.short, "group": role.group(spec).removeprefix("x."), "writer": writer}


def _topic(each: Declaration) -> dict[str, Any]:
    kept = kept_as(Topic(each.name, 1, each.cleanup, each.retention_ms, each.max_bytes))
    late = {"message.timestamp.after.max.ms": str(LARGEST_TIME)}
    return {
        "name": each.name,
        "partitions": each.partitions,
        "only_with": list(each.only_with or ()),
        "writers": list(each.writers),
        "readers": list(each.readers),
        "describers": list(each.describers),
        "config": {**kept, **late, **(Settings().compacted if each.cleanup == "compact" else {})},
    }


def _with_spec(text: str) -> str:
    """The schema of values with that of specs in it."""
    schema = json.loads(text)
    schema["$defs"]["spec"] = {name: value for name, value in _for_helm(json_schema()).items() if name != "$schema"}
    return json.dumps(schema, indent=1) + "\n"


def _for_helm(schema: Any) -> Any:
    """The same schema, so written that helm tells one mistake in one line instead of all that would have been right.

    Helm's regular expressions cannot look ahead: such patterns are left to the services.
    """
    if isinstance(schema, list):
        return [_for_helm(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _for_helm(value) for name, value in schema.items() if name not in {"pattern", "anyOf", "oneOf"}}
    if "(?=" not in schema.get("pattern", "(?=") and "(?!" not in schema["pattern"]:
        kept["pattern"] = schema["pattern"]
    match schema:
        case {"anyOf": [one, {"type": "null"}]}:
            kept |= {"if": {"type": "null"}, "then": True, "else": _for_helm(one)}
        case {"oneOf": list(choices)} if all("kind" in each.get("properties", {}) for each in choices):
            kept |= _by_kind(choices)
        case {"anyOf": choices} | {"oneOf": choices}:
            kept["anyOf"] = _for_helm(choices)
    return kept


def _by_kind(choices: list[Any]) -> dict[str, Any]:
    """One of several objects by their field `kind`, as a chain of conditions."""
    kinds = [_for_helm(each["properties"]["kind"]) for each in choices]
    own = [each for each in kinds if "const" not in each]
    return {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"anyOf": [{"enum": [each["const"] for each in kinds if "const" in each]}, *own]}},
        "allOf": [
            {"if": {"properties": {"kind": kind}, "required": ["kind"]}, "then": _for_helm(each)}
            for kind, each in zip(kinds, choices, strict=True)
        ],
    }
