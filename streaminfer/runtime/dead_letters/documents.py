"""A dead letter as one JSON document."""

from __future__ import annotations

import base64
from typing import Any

from streaminfer.wire.dead_letters import DeadLetter


def document(letter: DeadLetter) -> dict[str, Any]:
    """The document that `dead-letters --json` prints."""
    value = letter.value
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "reason": letter.reason,
        "value": None if value is None else text_of(value),
        "value_base64": base64_of(value),
        "length": len(value or b"") if letter.full_length is None else letter.full_length,
        "key_base64": base64_of(letter.source_key),
        "headers": [[name, base64_of(data)] for name, data in letter.headers],
        "cut": letter.is_cut,
    }


def base64_of(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def text_of(value: bytes) -> str | None:
    """The bytes as text, if they are text; `value_base64` always has them exactly."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
