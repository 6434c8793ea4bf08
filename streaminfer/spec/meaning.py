"""What of a spec decides what its posterior means: as a fingerprint, as a short text, and how two of them differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final

Meaning = Mapping[str, Any]

FORMER: Final[Mapping[str, Mapping[str, Any]]] = {
    "logistic_regression": {"local": "bound"},
    "probit_regression": {"local": "sequential"},
    "lda": {"local": "bound"},
}
"""By model kind: options that came after the first posteriors, and what each does that those posteriors have.

An option with that value is not in the meaning, so a spec that says so goes on with such a posterior. One with another
value (the default, if that is another) is told what to say.
"""

FORMER_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {"probit_regression": {"sweeps": 1}}
"""By model kind: options that had another default then."""

MOST_TEXT: Final = 4096
"""Bytes of a meaning as text; a longer one is not kept."""
MOST_VALUE: Final = 200
"""Characters of a value in such a text; a longer one is kept as a hash only."""
HASHED: Final = "sha256:"

SECTIONS: Final = {
    "format": "data", "topic": "data", "fields": "data", "timestamp": "data", "schema": "data", "schema_id": "data",
    "method": "inference", "forget": "inference", "local_iterations": "inference", "step": "inference",
    "population": "inference", "epochs": "inference", "minibatch": "inference",
    "seed": "inference", "subposteriors": "inference", "source": "inference", "batches": "inference",
    "start": "inference", "precondition": "inference", "control_variates": "inference", "friction": "inference",
    "noise": "inference", "adapt": "inference", "scan": "inference", "transition": "inference",
}  # fmt: skip
"""The section of a spec that has a part of its meaning; the others are sections themselves."""


def without_former(model: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model but those that say what was done before there were such options."""
    former = FORMER.get(model["kind"], {})
    return {name: value for name, value in model.items() if name not in former or value != former[name]}


def fingerprint(meaning: Meaning) -> str:
    """16 hexadecimal digits."""
    return _hash(meaning)


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def remedy(meaning: Meaning, found: str) -> str | None:
    """What to say in a spec to go on with a posterior of a fingerprint that was begun before some option; or None."""
    model = meaning["model"]
    former = {name: value for name, value in FORMER.get(model["kind"], {}).items() if name in model}
    for names in _subsets(former):
        rest = {name: value for name, value in model.items() if name not in names}
        for defaults in ({}, FORMER_DEFAULTS.get(model["kind"], {})):
            if fingerprint({**meaning, "model": {**rest, **defaults}}) == found:
                begun = {**{name: former[name] for name in names}, **defaults}
                was = " and ".join(f"model.{name} was {value!r}" for name, value in begun.items())
                say = " and ".join(f"model.{name}: {value}" for name, value in begun.items())
                return f"it was begun when {was}: set {say} to continue it"
    return None


def _subsets(names: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for n in range(1, len(names) + 1):
        yield from combinations(sorted(names), n)


def text_of(meaning: Meaning) -> bytes | None:
    """The meaning as JSON, with hashes for what is long; None if it is still too long."""
    text = json.dumps(_shortened(meaning), sort_keys=True, separators=(",", ":")).encode()
    return text if len(text) <= MOST_TEXT else None


def _shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _shortened(item) for name, item in value.items()}
    return value if len(json.dumps(value)) <= MOST_VALUE else HASHED + _hash(value)


def read(text: bytes) -> Meaning | None:
    """The inverse of `text_of`, for bytes that any program may have written."""
    if len(text) > MOST_TEXT:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def differences(there: Meaning, here: Meaning) -> list[str]:
    """What is not the same, a field and both values each: `there` is as `read` gives it, `here` is that of a spec."""
    fields = _flat(there), _flat(_shortened(here))
    return [
        f"{_printable(name)} is {_value(fields[0], name)} in that spec and {_value(fields[1], name)} in this one"
        for name in sorted(fields[0].keys() | fields[1].keys())
        if fields[0].get(name) != fields[1].get(name)
    ]


def _flat(meaning: Meaning) -> dict[str, Any]:
    """The values by the names that fields have in a spec; what is null is not set."""
    found: dict[str, Any] = {}
    left = [(f"{SECTIONS[name]}.{name}" if name in SECTIONS else name, value) for name, value in meaning.items()]
    while left:
        name, value = left.pop()
        if isinstance(value, Mapping):
            left += [(f"{name}.{each}", item) for each, item in value.items()]
        elif value is not None:
            found[name] = value
    return found


def _printable(name: str) -> str:
    """A name from outside, without anything that a terminal would act upon."""
    return name.encode("unicode_escape").decode()[:MOST_VALUE]


def _value(fields: Mapping[str, Any], name: str) -> str:
    if name not in fields:
        return "not set"
    value = fields[name]
    if isinstance(value, str) and value.startswith(HASHED):
        return f"a long value ({value})"
    return json.dumps(value, ensure_ascii=True)[: 2 * MOST_VALUE]
