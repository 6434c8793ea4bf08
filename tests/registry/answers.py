"""A small HTTP server that answers as no real registry does."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Reply = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Every request goes to the server's `reply`, and its method, path and headers to `seen`."""

    server: Server

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        try:
            self.server.reply(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client has had enough

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def send_json(self, status: int, document: Any) -> None:
        self.send(status, json.dumps(document).encode())


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, reply: Reply, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self._scheme = reply, "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.seen: list[tuple[str, str, dict[str, str]]] = []

    def handle_error(self, *_: Any) -> None:
        """A client that does not trust the certificate goes away in the middle; it says why itself."""

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(reply: Reply, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    with Server(reply, tls) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
