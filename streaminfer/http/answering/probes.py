"""`/healthz`, `/readyz` and `/metrics`, for the whole job: what other services serve of themselves alone."""

from __future__ import annotations

from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from streaminfer.http.routes import Asked
from streaminfer.runtime.running.health import Health

PLAIN: Final = "text/plain"
METRICS: Final = CONTENT_TYPE_LATEST.partition(";")[0]


class Probes:
    """The handlers; they answer before there is a bus."""

    def __init__(self, health: Health) -> None:
        self._health = health

    async def healthz(self, _asked: Asked) -> Response:
        return _plain(*self._health.healthz())

    async def readyz(self, _asked: Asked) -> Response:
        return _plain(*self._health.readyz())

    async def metrics(self, _asked: Asked) -> Response:
        return Response(generate_latest(self._health.registry), 200, {"Cache-Control": "no-store"}, CONTENT_TYPE_LATEST)


def _plain(status: int, text: str) -> Response:
    return PlainTextResponse(text, status, {"Cache-Control": "no-store"})
