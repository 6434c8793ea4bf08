"""The description of the API (OpenAPI 3.1), from the table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streaminfer.http import problems
from streaminfer.http.parameters import described
from streaminfer.http.routes import JSON, Route
from streaminfer.http.schemas import SCHEMAS, ref

VERSION: Final = "3.1.0"
REFUSALS: Final = {
    304: "the client has it",
    400: "a part of the request breaks a rule",
    401: "the token is missing or wrong",
    403: "the request comes by another name or from another page",
    404: "there is no such thing",
    405: "the path has no such method",
    408: "the request did not come whole in time",
    413: "the body is too large",
    415: "the body is not JSON",
    422: "the model cannot do it",
    429: "too many requests",
    431: "the headers are too large",
    503: "not yet, or too much at once",
}
ALWAYS: Final = (400, 401, 403, 405, 408, 413, 429, 431, 503)
"""Statuses that every route may have."""


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": VERSION,
        "info": {
            "title": "streaminfer",
            "version": version,
            "description": "Posteriors that are updated with every event, and whether they can be trusted now.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "streaminfer"},
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.about,
        "parameters": [described(each) for each in route.parameters],
        "responses": _responses(route),
    }
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": {route.body_kind: {"schema": ref(route.body)}}}
    if route.is_open:
        found["security"] = [{}]
    return found


def _name(route: Route) -> str:
    words = [word for word in route.path.replace("{", "").replace("}", "").split("/") if word] or ["page"]
    return "_".join([route.method.lower(), *words]).replace("-", "_").replace(".", "_")


def _responses(route: Route) -> dict[str, Any]:
    answer = route.answer
    schema = {} if answer.schema is None else {"schema": ref(answer.schema)}
    good: dict[str, Any] = {"description": answer.about}
    if answer.kind:
        good["content"] = {answer.kind: schema}
    if answer.headers:
        good["headers"] = {name: {"required": True, "schema": {"type": "string"}} for name in answer.headers}
    found = {str(answer.status): good}
    for status in sorted({*ALWAYS, *route.refusals}):
        found.setdefault(str(status), _refusal(route, status))
    return found


def _refusal(route: Route, status: int) -> dict[str, Any]:
    found: dict[str, Any] = {"description": REFUSALS[status]}
    if status == 304:
        return found
    kind = JSON if route.plain is None else route.plain
    schema = {problems.KIND: {"schema": ref("Problem")}}
    return {**found, "content": schema if kind == JSON else {**schema, kind: {}}}
