"""Serves the API and the page in a thread of the monitor, from its memory."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Final

import uvicorn

from streaminfer.http.app import App
from streaminfer.http.guarding.guard import HEADERS
from streaminfer.http.guarding.limits import Limits
from streaminfer.http.guarding.protocol import bounded
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.running.health import Health

BACKLOG: Final = 128
"""Connections that are accepted at once, and so the most that there are beyond the limit before they are refused."""
END_SECONDS: Final = 2.0
"""In which answers under way may be finished at the end."""


class Server:
    """A server that runs. `server_port` is the port it got."""

    def __init__(self, listening: socket.socket, server: uvicorn.Server) -> None:
        self.server_port: int = listening.getsockname()[1]
        self._server = server

    @property
    def connections(self) -> list[socket.socket]:
        """The sockets of all connections now."""
        return [each.transport.get_extra_info("socket") for each in list(self._server.server_state.connections)]

    @property
    def n_connections(self) -> int:
        return len(self._server.server_state.connections)


@contextmanager
def serve(
    memories: Sequence[Memory], health: Health, host: str, port: int, token: str | None, limits: Limits | None = None
) -> Iterator[Server]:
    """Answers until the end of the context; raises OSError if the address cannot be had."""
    app = App(memories, health, token, limits)
    listening = _listen(host, port)
    for name in ("uvicorn.error", "uvicorn.access"):  # requests come every few seconds; they are not news
        logging.getLogger(name).setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        http=bounded(app.limits, HEADERS),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=[(name.decode(), value.decode()) for name, value in HEADERS],
        timeout_keep_alive=5,
        timeout_graceful_shutdown=int(END_SECONDS),
        backlog=BACKLOG,
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="http", daemon=True)
    thread.start()
    try:
        yield Server(listening, server)
    finally:
        app.close()
        server.should_exit = True
        thread.join(END_SECONDS + 3.0)
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only of sockets that say TCP asyncio sends small pieces at once; else each answer waits 40 ms for its second one.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
