"""Cells of a CSV file as the JSON of an event. What is a number already in JSON goes as the text that it is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring as quoted
from typing import Any, Final

from streaminfer.models.events import LARGEST_COUNT, TRUTHS, Field
from streaminfer.spec import Spec
from streaminfer.spec.avro_schema import NUMBERS, branches, reduced

Converter = Callable[[str], str]
"""The JSON of a cell."""

SHORT: Final = r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?|[eE][+-][0-9]{1,2})?"
"""Numbers of JSON that float64 holds, as most are."""
_SHORT: Final = re.compile(SHORT).fullmatch
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-][0-9]+)").fullmatch
_WHOLE: Final = re.compile(r"-?[1-9][0-9]{15}").fullmatch
_BEGINS: Final = frozenset("-0123456789")


def converters(spec: Spec, header: Sequence[str]) -> list[Converter]:
    """One for each column: by the fields that read it, else by the schema of an Avro topic, else by its look."""
    fields: dict[str, list[Field]] = {}
    for field in spec.event_fields:
        fields.setdefault(field.path[0], []).append(field)
    by_schema = _by_schema(spec)
    unread = looks if spec.data.format == "json" else quoted
    found = []
    for name in header:
        kinds = {field.kind for field in fields.get(name, [])}
        if kinds <= {"key"}:
            as_text = quoted if kinds else unread
            found.append(number if kinds and spec.data.format == "rows" else by_schema.get(name, as_text))
        else:
            found.append(_read(kinds))
    return found


def _read(kinds: set[Any]) -> Converter:
    """Reads a column of fields of these kinds; a key that is also a number of the model is a number."""
    if "tokens" in kinds:
        return _words
    if kinds == {"binary"}:
        return truth
    return quoted if "category" in kinds else number


def _by_schema(spec: Spec) -> Mapping[str, Converter]:
    """The columns that an Avro schema says are numbers or booleans, whether the model reads them or not; empty may
    mean null."""
    if spec.data.format != "avro":
        return {}
    schema: Any = reduced(spec.event_schema)
    made: dict[str, Converter] = {}
    for each in schema["fields"]:
        types = {str(branch) for branch in branches(each["type"])}
        kinds = types - {"null"}
        if kinds and kinds <= NUMBERS | {"boolean"}:
            typed = number if kinds <= NUMBERS else truth
            made[each["name"]] = _or_null(typed) if "null" in types else typed
    return made


def _or_null(typed: Converter) -> Converter:
    return lambda text: "null" if text == "" else typed(text)


def _words(text: str) -> str:
    return json.dumps(text.split(), separators=(",", ":"), ensure_ascii=False)


def looks(text: str) -> str:
    """A number if the text is one and nothing of it would be lost; else the text.

    So codes stay what they are: leading zeros, a plus sign, whole numbers beyond 2^53, and 12e4, which has no sign in
    the exponent and no decimal point.
    """
    if _SHORT(text):
        return text
    if text[:1] in _BEGINS and (
        (_WHOLE(text) and abs(int(text)) <= LARGEST_COUNT) or (_DECIMAL(text) and math.isfinite(float(text)))
    ):
        return text
    return quoted(text)


def truth(text: str) -> str:
    """True or false, or the number that a text is; else the text itself."""
    found = TRUTHS.get(text)
    return number(text) if found is None else "true" if found else "false"


def number(text: str) -> str:
    """The number that a text is, a whole one if it looks like one; else the text itself."""
    if _SHORT(text):
        return text
    try:
        found = int(text) if len(text) < 20 and text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return quoted(text)
    return repr(found) if math.isfinite(found) and "_" not in text else quoted(text)
