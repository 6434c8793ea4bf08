"""Errors as `application/problem+json` (RFC 9457): what is wrong, where, the rule, the value and the remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

KIND: Final = "application/problem+json"
LONGEST: Final = 200
"""Characters of a value that an error repeats."""


class Problem(Exception):
    """A request that gets no answer. `detail` is one sentence; the members say the same for programs."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        rule: str | None = None,
        value: object = None,
        remedy: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.headers = status, dict(headers or {})
        members = {"field": field, "rule": rule, "value": shortened(value), "remedy": remedy, **(more or {})}
        self.document: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail,
            **{name: member for name, member in members.items() if member is not None},
        }

    @property
    def body(self) -> bytes:
        return json.dumps(self.document, ensure_ascii=False).encode("utf-8", "backslashreplace")

    def response(self) -> Response:
        return Response(self.body, self.status, self.headers, KIND)


def shortened(value: object) -> str | None:
    """A value as text that is safe to repeat; None stays None."""
    if value is None:
        return None
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def bad_field(field: str, rule: str, value: object, remedy: str, status: int = 400) -> Problem:
    """A part of a request that breaks a rule."""
    shown = shortened(value)
    got = "" if shown is None else f" (got {shown!r})"
    return Problem(status, f"{field}: {rule}{got}", field=field, rule=rule, value=value, remedy=remedy)
