"""JSON over HTTP with a registry: one bounded request at a time, within one deadline for the whole conversation."""

from __future__ import annotations

import io
import json
import socket
import ssl
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, NamedTuple

from streaminfer.bus.protocol import Unavailable
from streaminfer.runtime.registry.settings import PREFIX, URL, Settings
from streaminfer.runtime.service import Fatal

DEADLINE_S: Final = 8.0
MAX_BYTES: Final = 1 << 20
"""Bytes of an answer; our largest schema has some thousands."""
MAX_TEXT: Final = 500
"""Characters of the registry's own words in a message."""
PATH_HINT: Final = "is the path right? Apicurio's is /apis/ccompat/v7"
_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryError(Fatal):
    """The registry refuses, or answers what no registry answers; trying again does not help."""


class RegistryUnavailable(Unavailable):
    """The registry did not answer in time; services wait for it as they do for the bus."""


class Answer(NamedTuple):
    """A status below 500 and the JSON value that came with it."""

    status: int
    value: Any

    @property
    def body(self) -> dict[str, Any]:
        """The value if it is an object; otherwise an empty one, in which nothing is found."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def code(self) -> int:
        """The API's own error code, which tells a missing subject from a wrong path."""
        code = self.body.get("error_code")
        return code if isinstance(code, int) else 0


class Conversation:
    """Requests to one registry. Redirects are not followed: credentials go to the user's address, and nowhere else."""

    def __init__(self, settings: Settings, deadline_s: float = DEADLINE_S) -> None:
        self._settings = settings
        self._deadline = time.monotonic() + deadline_s

    def ask(self, method: str, path: str, document: dict[str, Any] | None = None) -> Answer:
        """One request; raises RegistryUnavailable if another try may help, RegistryError if it cannot."""
        try:
            status, data = self._exchange(method, path, document)
        except ssl.SSLCertVerificationError as error:
            reason = f"its certificate is not accepted ({self.words(error.verify_message)}): check {PREFIX}CA_FILE"
            raise RegistryError(self.say(reason)) from None
        except (OSError, HTTPException) as error:
            raise RegistryUnavailable(
                self.say(f"does not answer: {type(error).__name__}: {self.words(error)}")
            ) from None
        if status >= 500 or status == 429:
            raise RegistryUnavailable(self.say(f"answers with status {status}"))
        if status in {401, 403}:
            names = f"{PREFIX}USERNAME and {PREFIX}PASSWORD_FILE, or {PREFIX}TOKEN_FILE"
            raise RegistryError(self.say(f"refuses {method} {path} with status {status}: check {names}"))
        if 300 <= status < 400:
            raise RegistryError(
                self.say(f"answers with a redirect (status {status}), which is not followed: set {URL}")
            )
        return Answer(status, self._parsed(data))

    def say(self, what: str) -> str:
        """A message about the registry."""
        return f"schema registry {self._settings.url} ({URL}) {what}"

    def words(self, value: object) -> str:
        """What came from outside, for a message: bounded, printable, without our secrets even if they are echoed."""
        text = str(value)
        for secret in self._settings.secrets:
            text = text.replace(secret, "***")
        return "".join(c if c.isprintable() else " " for c in text[:MAX_TEXT])

    def _exchange(self, method: str, path: str, document: dict[str, Any] | None) -> tuple[int, bytes]:
        settings = self._settings
        timeout = self._deadline - time.monotonic()
        if timeout <= 0:
            raise TimeoutError("no time left")
        headers = {"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE}
        if settings.authorization is not None:
            headers["Authorization"] = settings.authorization
        connection = (
            HTTPSConnection(settings.host, settings.port, timeout=timeout, context=settings.tls())
            if settings.scheme == "https"
            else HTTPConnection(settings.host, settings.port, timeout=timeout)
        )
        connection.response_class = self._response  # type: ignore[assignment]
        try:
            body = None if document is None else json.dumps(document).encode()
            connection.request(method, settings.path + path, body, headers)
            with connection.getresponse() as response:
                data = response.read(MAX_BYTES + 1)
                if response.length and len(data) <= MAX_BYTES:
                    raise HTTPException("the answer was cut short")
                return response.status, data
        finally:
            connection.close()

    def _response(self, sock: socket.socket, *arguments: Any, **options: Any) -> HTTPResponse:
        response = HTTPResponse(sock, *arguments, **options)
        response.fp = io.BufferedReader(_Timed(sock, response.fp.detach(), self._deadline))
        return response

    def _parsed(self, data: bytes) -> Any:
        if len(data) > MAX_BYTES:
            raise RegistryError(self.say(f"answers with more than {MAX_BYTES} bytes"))
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise RegistryError(self.say(f"answers with something that is not JSON; {PATH_HINT}")) from None


class _Timed(io.RawIOBase):
    """A socket's bytes until a deadline: a socket's own timeout begins anew with every byte that trickles in."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, deadline: float) -> None:
        self._sock, self._raw, self._deadline = sock, raw, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no whole answer in time")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
