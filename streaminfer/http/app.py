"""The way of a request: bounds, who asks, which route, its values, the answer. Errors become problems here."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from streaminfer.http import openapi
from streaminfer.http.answering.answers import Answers, json_answer, not_modified, unchanged
from streaminfer.http.answering.computing import Computing
from streaminfer.http.answering.probes import Probes
from streaminfer.http.answering.streaming import Streaming, Streams
from streaminfer.http.answering.working import Workers
from streaminfer.http.guarding.guard import Guard
from streaminfer.http.guarding.limits import Limits, Rates
from streaminfer.http.guarding.signing_in import SigningIn
from streaminfer.http.page_files import File, page_files
from streaminfer.http.parameters import read_query
from streaminfer.http.problems import Problem, bad_field
from streaminfer.http.routes import JSON, Asked, Route
from streaminfer.http.table import One, routes
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.running.health import Health

log = logging.getLogger(__name__)

COSTS: Final = {"/login": 100.0}
"""Units of a request that are not one: nobody shall try many tokens."""
INSTANCE: Final = "streaminfer-monitor"
"""The header that says which monitor answers."""
Call = Callable[[Request], Awaitable[Response]]


class App:
    """The application that uvicorn calls."""

    def __init__(
        self, memories: Sequence[Memory], health: Health, token: str | None, limits: Limits | None = None
    ) -> None:
        """The memories are those of one monitor, each of another posterior."""
        self.limits = limits or Limits()
        self._guard, self._rates, self._workers = Guard(token), Rates(self.limits), Workers(self.limits.waiting)
        self._instance, self._streams = memories[0].instance, Streams(self.limits)
        self.routes: Sequence[Route] = routes(
            {memory.spec.name: self._one(memory) for memory in memories},
            Probes(health),
            SigningIn(self._guard),
            self._describe,
            self.limits,
        )
        self._description = openapi.document(self.routes, version("streaminfer"))
        self._page: Mapping[str, File] = page_files()

    def _one(self, memory: Memory) -> One:
        answers = Answers(memory)
        return One(answers, Computing(answers, self._workers, self.limits), Streaming(answers, self._streams))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not HTTP")
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except Problem as problem:
            answer = problem.response()
        except ClientDisconnect:
            return
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path[:200])
            answer = Problem(500, "the monitor failed at this; its log says why", remedy="tell its owner").response()
        answer.headers[INSTANCE] = self._instance
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode("ascii", "replace")
        self._check_rate(request, COSTS.get(path, 1.0))
        file = self._page.get(path) if request.method in {"GET", "HEAD"} else None
        if file is not None:
            self._guard.check(request, is_open=True)
            asked = Asked(request, read_query((), request.scope["query_string"]))
            return self._file(file, asked)
        return await self._call(request, path)

    async def _call(self, request: Request, path: str) -> Response:
        segments = path.split("/")
        found = [(route, raw) for route in self.routes if (raw := route.match(segments)) is not None]
        method = "GET" if request.method == "HEAD" else request.method
        mine = next(((route, raw) for route, raw in found if route.method == method), None)
        self._guard.check(request, mine is not None and mine[0].is_open)
        if mine is None:
            raise self._no_route(path, [route.method for route, _ in found], request.method)
        route, raw = mine
        values: dict[str, Any] = {**route.values(raw), **read_query(route.parameters, request.scope["query_string"])}
        if route.body is not None:
            _check_kind(request, route.body_kind)
        self._check_rate(request, values["n"] / 50 if "n" in values else 0.0)
        return await route.handle(Asked(request, values))

    def _no_route(self, path: str, methods: list[str], method: str) -> Problem:
        if path in self._page:
            methods = ["GET"]
        if not methods:
            rule = "must be one that /openapi.json describes"
            return bad_field("path", rule, path, "ask for /v1/posteriors", status=404)
        allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else set())}))
        return Problem(405, f"method: this path has {allowed} (got {method[:20]!r})", field="method",
                       rule=f"must be one of {allowed}", value=method, remedy="use one of them",
                       headers={"Allow": allowed})  # fmt: skip

    def _check_rate(self, request: Request, cost: float) -> None:
        client = request.client.host if request.client is not None else ""
        wait = self._rates.take(client, cost)
        if wait > 0:
            rule = f"at most {self.limits.rate:g} units a second"
            raise Problem(429, f"requests: {rule} for each client", field="requests", rule=rule,
                          remedy=f"wait {wait:.1f} seconds", headers={"Retry-After": str(int(wait) + 1)})  # fmt: skip

    @staticmethod
    def _file(file: File, asked: Asked) -> Response:
        if unchanged(asked, file.etag):
            return not_modified(file.etag)
        return Response(file.body, 200, {"Cache-Control": "no-cache", "ETag": file.etag, "Content-Type": file.kind})

    async def _describe(self, _asked: Asked) -> Response:
        return json_answer(self._description)

    def close(self) -> None:
        self._streams.ending = True
        self._workers.close()


def _check_kind(request: Request, wanted: str) -> None:
    given = request.headers.get("content-type", JSON if wanted == JSON else "").partition(";")[0].strip().lower()
    if given != wanted:
        raise bad_field("Content-Type", f"must be {wanted}", given, f"send {wanted}", status=415)
