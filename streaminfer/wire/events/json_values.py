"""JSON texts of other people to values, one by one or many by one call."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from streaminfer.topics import declarations

MAX_BYTES: Final = declarations()["events"].max_bytes
MAX_DEPTH: Final = 100
"""Lists and objects inside of each other. Each parser has another limit of its own; with this one all take the same."""
TOGETHER: Final = 64
"""Texts that are parsed by one call: one bad text costs the others of its part a second parsing."""

Loads = Callable[[bytes], Any]
"""The value of a text; raises ValueError or RecursionError if it is not JSON."""


def parse_json(value: bytes | None) -> object:
    """The value of a JSON text; raises ValueError or RecursionError if it is not JSON."""
    if value is None:
        raise ValueError("a tombstone holds no event")
    if len(value) > MAX_BYTES:
        raise ValueError(f"{len(value)} bytes are more than the {MAX_BYTES} an event may have")
    if _too_deep(value):
        raise ValueError(f"lists and objects must not be nested more than {MAX_DEPTH} deep")
    return decode(value)


def _too_deep(text: bytes) -> bool:
    """Whether a text is nested more than MAX_DEPTH deep. Nearly all have too few brackets for that."""
    if not _has_many_brackets(text):
        return False
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += found[0] in b"[{"
        depth -= found[0] in b"]}"
        if depth > MAX_DEPTH:
            return True
    return False


def _has_many_brackets(text: bytes) -> bool:
    return text.count(b"[") + text.count(b"{") > MAX_DEPTH


def decode(text: bytes) -> Any:
    """By the standard library, whose word counts: NaN and Infinity are not JSON, a repeated name has its last value."""
    return _JSON.decode(str(text, "utf-8"))


def together(values: Sequence[bytes | None], loads: Loads = decode) -> list[object] | None:
    """The values of several JSON texts by one call, or None if any is not right; then each is parsed by itself.

    Between them stands a number that cannot be known beforehand. Found again between any two values, and nowhere else,
    it proves that no text began or ended inside of another.
    """
    texts = [value for value in values if value is not None and len(value) <= MAX_BYTES]
    if len(texts) < len(values):
        return None
    mark = secrets.randbits(60)
    joined = b"[" + (b",%d," % mark).join(texts) + b"]"
    if _has_many_brackets(joined) and any(map(_too_deep, texts)):
        return None
    try:
        found = loads(joined)
    except (ValueError, RecursionError):
        return None
    whole = len(found) == 2 * len(texts) - 1 and found[1::2] == [mark] * (len(texts) - 1)
    return found[::2] if whole else None


def quickly(values: Sequence[bytes | None]) -> list[object] | None:
    """The values of all texts by orjson, several times faster than the standard library; None without it, or if it
    refuses any.

    If both take a text they give the same value, except for an integer beyond 64 bits: orjson gives the nearest float.
    Texts nested more than MAX_DEPTH deep are given to neither, as their limits differ.
    """
    loads = _quick()
    if loads is None:
        return None
    rows: list[object] = []
    for begin in range(0, len(values), TOGETHER):
        found = together(values[begin : begin + TOGETHER], loads)
        if found is None:
            return None
        rows += found
    return rows


@cache
def _quick() -> Loads | None:
    """orjson's parser, None if that is not installed (the extra `fast`)."""
    try:
        import orjson
    except ImportError:
        return None
    return orjson.loads


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)

_BRACKET: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[][{}]', re.DOTALL)
"""A bracket; or a string, so that none inside of it is found. One without an end goes to the end of the text."""
