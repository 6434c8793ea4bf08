"""A bare Starlette application under uvicorn that answers the same bytes to everything."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def main(file: str, port: int) -> None:
    body = Path(file).read_bytes()

    async def answer(request: Request) -> Response:
        await request.body()
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    uvicorn.run(app, host="127.0.0.1", port=port, http="httptools", loop="asyncio", log_level="critical")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
