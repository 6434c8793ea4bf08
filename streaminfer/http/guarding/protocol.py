"""Connections with bounds: uvicorn's own waits for ever for a header that comes byte by byte, and takes any amount."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from streaminfer.http.guarding.limits import Limits
from streaminfer.http.problems import KIND, Problem

LINGER: Final = 1.0
"""Seconds in which what a refused client still sends is thrown away, so that it can read why it was refused."""


class Bounded(HttpToolsProtocol):
    """A connection that ends if a request does not come whole in time, is too large, or its answer is not taken."""

    limits: Limits
    headers_of_all: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._whole_by: asyncio.TimerHandle | None = None
        self._taken_by: asyncio.TimerHandle | None = None
        self._in_head, self._bytes, self._body_bytes = True, 0, 0
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "connections", f"at most {self.limits.connections} at once", "try again later")
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_head:
            self._expect_request()  # empty lines before a request begin none, and may not come for ever either
            if self._bytes > self.limits.head_bytes:
                self._refuse(431, "headers", f"at most {self.limits.head_bytes} bytes", "send fewer or shorter ones")
                return
        elif self._bytes > self.limits.head_bytes + 2 * self.limits.body_bytes:
            self._too_large(None)  # sizes of chunks, and headers after the last of them
            return
        self._bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._body_bytes = True, 0
        self._expect_request()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes after a body (trailers) is not among the headers, which proxies have checked
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._refused:
            return
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        if length.isdigit() and int(length) > self.limits.body_bytes:
            self._too_large(int(length))
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self.limits.body_bytes:
            self._too_large(None)
        elif not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._bytes = True, 0
        self._stop(self._whole_by)
        self._whole_by = None
        if not self._refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and not self.transport.is_closing():
            self._linger()  # answered before the body was whole: nobody wants the rest of it

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taken_by = self.loop.call_later(self.limits.write_seconds, self._cut)

    def resume_writing(self) -> None:
        self._stop(self._taken_by)
        self._taken_by = None
        super().resume_writing()

    def _expect_request(self) -> None:
        if self._whole_by is None:
            self._whole_by = self.loop.call_later(self.limits.request_seconds, self._too_late)

    def _too_late(self) -> None:
        self._refuse(
            408, "request", f"must come whole within {self.limits.request_seconds:g} seconds", "send it faster"
        )

    def _too_large(self, length: int | None) -> None:
        self._refuse(413, "body", f"at most {self.limits.body_bytes} bytes", "send less at once", length)

    def _refuse(self, status: int, field: str, rule: str, remedy: str, value: int | None = None) -> None:
        """Says why if nothing was answered yet, and ends the connection."""
        if self._refused:
            return
        self._refused = True
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self._cut()
            return
        got = "" if value is None else f" (got {value})"
        problem = Problem(status, f"{field}: {rule}{got}", field=field, rule=rule, value=value, remedy=remedy)
        self.transport.write(self._raw(problem))
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if status == 503:  # thousands may come at once: none is waited for
            self.transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        """Takes and forgets what comes for a moment: an end with bytes unread would take the answer away too."""
        self._refused = True
        self._stop_timers()
        self._unset_keepalive_if_required()
        self.transport.write_eof()
        self.flow.resume_reading()
        self._whole_by = self.loop.call_later(LINGER, self._cut)

    def _raw(self, problem: Problem) -> bytes:
        body = problem.body
        headers = [
            *self.server_state.default_headers, *self.headers_of_all, (b"content-type", KIND.encode()),
            (b"content-length", str(len(body)).encode()), (b"connection", b"close"),
        ]  # fmt: skip
        lines = b"".join(b"%s: %s\r\n" % header for header in headers)
        return b"%s%s\r\n%s" % (STATUS_LINE[problem.status], lines, body)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP."""
        self._refuse(400, "request", "must be HTTP/1.1", f"send what RFC 9112 allows; the parser says: {msg}")

    def _cut(self) -> None:
        self.transport.abort()

    def _stop_timers(self) -> None:
        for timer in (self._whole_by, self._taken_by):
            self._stop(timer)
        self._whole_by = self._taken_by = None

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def bounded(limits: Limits, headers: tuple[tuple[bytes, bytes], ...]) -> type[Bounded]:
    """The protocol of a server; uvicorn makes one for each connection and gives it nothing of ours."""
    return type("BoundedHere", (Bounded,), {"limits": limits, "headers_of_all": headers})
