"""`/healthz`, `/readyz` and `/metrics` of a service. Binds to loopback; elsewhere metrics need a token."""

from __future__ import annotations

import hmac
import ipaddress
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6, SO_REUSEADDR, SOL_SOCKET, socket
from threading import Thread
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from streaminfer.bus.environment import SettingsError

TOKEN_VARIABLE: Final = "STREAMINFER_HTTP_TOKEN"  # noqa: S105 (the name of a variable)
TOKEN_FILE_VARIABLE: Final = f"{TOKEN_VARIABLE}_FILE"
LONGEST_TOKEN: Final = 1000
UNHEALTHY_AFTER: Final = 60.0
"""Seconds without a finished piece of work after which a service counts as stuck, if the environment does not say."""
LIMIT_VARIABLE: Final = "STREAMINFER_UNHEALTHY_AFTER"


class AddressError(ValueError):
    """An address for `--http` that cannot be used; says the rule and the remedy."""


def parse_address(text: str, environ: Mapping[str, str] = os.environ) -> tuple[str, int, str | None]:
    """HOST:PORT as host, port and the token it needs; raises AddressError."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65535 or not host:
        raise AddressError(f"--http: must be HOST:PORT, such as 127.0.0.1:8080 (got {text!r})")
    token = token_of(environ)
    if not is_loopback(host) and token is None:
        raise AddressError(
            f"--http: {host} can be reached from other machines; set {TOKEN_VARIABLE} to a token that "
            "readers must send as «Authorization: Bearer …», or bind to 127.0.0.1"
        )
    return host, int(port), token


def token_of(environ: Mapping[str, str]) -> str | None:
    """From the variable, or from the file that another one names; raises AddressError if that has none."""
    file = environ.get(TOKEN_FILE_VARIABLE)
    if not file:
        return environ.get(TOKEN_VARIABLE) or None
    if environ.get(TOKEN_VARIABLE):
        raise AddressError(f"{TOKEN_FILE_VARIABLE}: {TOKEN_VARIABLE} is set too; set only one of them")
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AddressError(f"{TOKEN_FILE_VARIABLE}: must be a file with a token (got {file!r}): {error}") from error
    if not token or len(token) > LONGEST_TOKEN or "\n" in token:
        raise AddressError(f"{TOKEN_FILE_VARIABLE}: must have one line of 1 to {LONGEST_TOKEN} characters ({file})")
    return token


def limit_of(environ: Mapping[str, str] = os.environ) -> float:
    """Seconds after which a service counts as stuck; raises SettingsError."""
    text = environ.get(LIMIT_VARIABLE)
    if not text:
        return UNHEALTHY_AFTER
    if not text.isdecimal() or not 5 <= int(text) <= 86_400:
        raise SettingsError(f"{LIMIT_VARIABLE} must be a whole number of seconds from 5 to 86400 (got {text!r})")
    return float(text)


def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_free(host: str, port: int) -> None:
    """Raises OSError if nothing can be served at an address."""
    with socket(AF_INET6 if ":" in host else AF_INET) as tried:
        tried.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        tried.bind((host, port))


class Health:
    """What the paths answer: `beat` after every step says that the service lives, and whether it is ready."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self._limit = limit_of()
        self.ready = False
        self._last_beat = time.monotonic()

    def beat(self, ready: bool) -> None:
        self.ready = ready
        self._last_beat = time.monotonic()

    def lives(self) -> None:
        """A step goes on, and has not come to its end."""
        self._last_beat = time.monotonic()

    @property
    def healthy(self) -> bool:
        return time.monotonic() - self._last_beat < self._limit

    def healthz(self) -> tuple[int, str]:
        """Status and text of `/healthz`."""
        return (200, "ok\n") if self.healthy else (503, "no step for too long\n")

    def readyz(self) -> tuple[int, str]:
        """Status and text of `/readyz`."""
        return (200, "ready\n") if self.healthy and self.ready else (503, "not ready\n")


@contextmanager
def serve(health: Health, host: str, port: int, token: str | None) -> Iterator[ThreadingHTTPServer]:
    """Answers in a thread of its own; `server_port` of what it yields is the port it got."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version = "streaminfer"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/healthz":
                self._answer(*health.healthz())
            elif path == "/readyz":
                self._answer(*health.readyz())
            elif path == "/metrics":
                self._metrics()
            else:
                self._answer(404, "known paths: /healthz /readyz /metrics\n")

        def _metrics(self) -> None:
            given = self.headers.get("Authorization", "").encode("latin-1")
            if token is not None and not hmac.compare_digest(given, f"Bearer {token}".encode()):
                self._answer(401, "send the token as Authorization: Bearer ...\n")
            else:
                self._answer(200, generate_latest(health.registry).decode(), CONTENT_TYPE_LATEST)

        def _answer(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds; they are not news."""

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if ":" in host else AF_INET

    server = Server((host, port), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
