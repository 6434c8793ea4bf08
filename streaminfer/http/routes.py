"""The form of a route: from the one table of them follow what is answered and how the API is described."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from streaminfer.http.parameters import Parameter

JSON: Final = "application/json"


@dataclass(frozen=True)
class Asked:
    """A request with its values: those of the path and the query, by name."""

    request: Request
    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


Handler = Callable[[Asked], Awaitable[Response]]


@dataclass(frozen=True)
class Answer:
    """What a route answers if all is well."""

    about: str
    kind: str = JSON
    schema: str | None = None
    """The name of its schema; None if it is not JSON."""
    headers: tuple[str, ...] = ()
    status: int = 200


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    about: str
    handle: Handler
    answer: Answer
    parameters: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    """Other statuses that are its own; those that every route may have are added."""
    body: str | None = None
    """The name of the schema of its body."""
    body_kind: str = JSON
    plain: str | None = None
    """The kind in which it refuses, if that is not a problem as others are."""
    is_open: bool = False
    """Whether it needs no token, as it tells nothing of a posterior."""

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """The values of the path's parameters, as they came; None if it is another path."""
        own = self.path.split("/")
        if len(own) != len(segments):
            return None
        found = {}
        for mine, theirs in zip(own, segments, strict=True):
            if mine.startswith("{"):
                found[mine.strip("{}")] = theirs
            elif mine != theirs:
                return None
        return found

    def values(self, raw: Mapping[str, str]) -> dict[str, str]:
        """The same read by their rules: a slash in a key is sent as %2F, and is not the end of a segment."""
        known = {each.name: each for each in self.parameters if each.place == "path"}
        return {name: str(known[name].parse(unquote(text))) for name, text in raw.items()}
