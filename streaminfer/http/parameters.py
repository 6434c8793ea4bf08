"""What requests may say, each with its rule: read from requests and told in the description of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

from streaminfer.http.problems import Problem, bad_field

Place = Literal["path", "query"]


@dataclass(frozen=True)
class Whole:
    """A whole number between two bounds."""

    name: str
    about: str
    low: int
    high: int
    default: int | None = None
    place: Place = "query"

    @property
    def rule(self) -> str:
        return f"must be a whole number from {self.low} to {self.high}"

    def parse(self, text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 19 and self.low <= int(text) <= self.high):
            raise bad_field(self.name, self.rule, text, self.about)
        return int(text)

    @property
    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return found if self.default is None else {**found, "default": self.default}


@dataclass(frozen=True)
class Text:
    """A text of bounded length, in UTF-8."""

    name: str
    about: str
    longest: int
    default: str | None = None
    place: Place = "query"
    only: tuple[str, ...] = ()
    """All values that it can have here, if that is known."""
    required: bool = False

    @property
    def rule(self) -> str:
        return f"must be a text of 1 to {self.longest} characters"

    def parse(self, text: str) -> str:
        if not 1 <= len(text) <= self.longest or "\ufffd" in text:
            raise bad_field(self.name, f"{self.rule} in UTF-8", text, self.about)
        return text

    @property
    def schema(self) -> dict[str, Any]:
        if self.only:
            return {"type": "string", "enum": list(self.only)}
        return {"type": "string", "minLength": 1, "maxLength": self.longest}


Parameter = Whole | Text


def read_query(parameters: Sequence[Parameter], query: bytes) -> dict[str, Any]:
    """The values of a query, with defaults; raises Problem if one is unknown, said twice, or breaks its rule."""
    known = {each.name: each for each in parameters if each.place == "query"}
    found: dict[str, Any] = {name: each.default for name, each in known.items()}
    seen: set[str] = set()
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=50)
    except ValueError as error:
        raise Problem(400, f"query: cannot be read: {error}", field="query", remedy="say at most 50 fields") from error
    for name, text in pairs:
        if name not in known:
            rule = f"must be one of {', '.join(known)}" if known else "this path has none"
            raise bad_field("query", rule, name, "leave it out")
        if name in seen:
            raise bad_field(name, "must be said once", text, "leave one out")
        seen.add(name)
        found[name] = known[name].parse(text)
    return found


def described(parameter: Parameter) -> Mapping[str, Any]:
    """A parameter in OpenAPI."""
    needed = parameter.place == "path" or (isinstance(parameter, Text) and parameter.required)
    required = {"required": True} if needed else {}
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.about,
        **required,
        "schema": parameter.schema,
    }
