"""Server-sent events: what has changed, at most ten times a second. The newest wins: nothing is queued for a client.

A client that comes back says which version it has seen last (`Last-Event-ID`), and hears of a newer one at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from streaminfer.http.answering.answers import Answers
from streaminfer.http.guarding.limits import Limits
from streaminfer.http.problems import Problem, bad_field
from streaminfer.http.routes import Asked
from streaminfer.runtime.monitoring.memory.memory import Memory, Part
from streaminfer.runtime.monitoring.memory.shown import Shown, encoded
from streaminfer.wire.snapshots import iso

KIND: Final = "text/event-stream"
PAUSE: Final = 0.1
"""Seconds between two looks at the memory."""
KEPT_ALIVE: Final = 10.0
"""Seconds after which a stream without news says that it is there."""
RETRY_MS: Final = 2000


class Streams:
    """All streams of a server: how many there are, and whether they are to end."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.n_open, self.ending = 0, False


class Changes:
    """Looks at a memory for all streams of it together, as long as there is one."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._news = memory, asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self.n_streams = 0

    async def _look(self) -> None:
        before = self._memory.stamps
        while self.n_streams:
            await asyncio.sleep(PAUSE)
            if self._memory.stamps != before:
                before = self._memory.stamps
                self._news.set()
                self._news = asyncio.Event()

    async def wait(self, seen: Mapping[Part, int], seconds: float) -> None:
        """Until something has changed since `seen`, or some time has passed."""
        if self._memory.stamps != seen:
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass


class Streaming:
    """The handler of `events`."""

    def __init__(self, answers: Answers, streams: Streams) -> None:
        self._memory, self._streams = answers.memory, streams
        self._changes: Changes | None = None

    async def events(self, asked: Asked) -> Response:
        seen, most = _last_seen(asked), self._streams.limits.streams
        if self._changes is None:
            self._changes = Changes(self._memory)
        if self._streams.n_open >= most:
            raise Problem(503, f"streams: at most {most} at once", field="streams", rule=f"at most {most} at once",
                          remedy="close one, or try again later", headers={"Retry-After": "5"})  # fmt: skip
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if asked.request.method == "HEAD":
            return Response(None, 200, headers, KIND)
        return StreamingResponse(self._stream(self._changes, seen), 200, headers, KIND)

    async def _stream(self, changes: Changes, seen: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._streams.limits.stream_seconds
        sent: Mapping[Part, int] = dict.fromkeys(self._memory.stamps, -1)
        changes.n_streams += 1
        self._streams.n_open += 1
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            while not self._streams.ending and loop.time() < end:
                now = self._memory.stamps
                parts = [part for part, stamp in now.items() if stamp != sent[part]]
                sent = now
                found = [self._message(part, seen) for part in parts]
                newest = self._memory.posterior
                seen = seen if newest is None else newest.version
                if text := b"".join(each for each in found if each):
                    yield text
                    await asyncio.sleep(PAUSE)
                await self._wait(changes, sent, min(KEPT_ALIVE, end - loop.time()))
                if self._memory.stamps == sent:
                    yield b": nothing new\n\n"
        finally:
            changes.n_streams -= 1
            self._streams.n_open -= 1

    async def _wait(self, changes: Changes, sent: Mapping[Part, int], seconds: float) -> None:
        """In short turns, so that a server that ends does not wait for its streams."""
        left = seconds
        while left > 0 and not self._streams.ending and self._memory.stamps == sent:
            await changes.wait(sent, min(left, 1.0))
            left -= 1.0

    def _message(self, part: Part, seen: int) -> bytes:
        """What is said of a part; empty if the client knows it."""
        if part == "posterior":
            newest = self._memory.posterior
            return b"" if newest is None or newest.version == seen else _event(part, _summary(newest), newest.version)
        return _event(part, {"stamp": self._memory.stamps[part]})


def _summary(newest: Shown) -> dict[str, Any]:
    found = newest.found
    return {"version": found.version, "n_events": found.n_events, "created_at": iso(found.snapshot.created_at)}


def _event(name: str, data: Any, number: int | None = None) -> bytes:
    """JSON has no line breaks, so that it is one line of data."""
    head = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (head, name.encode(), encoded(data))


def _last_seen(asked: Asked) -> int:
    given = asked.request.headers.get("last-event-id", "")
    if not given:
        return -1
    if not (given.isascii() and given.isdecimal() and len(given) <= 19):
        raise bad_field("Last-Event-ID", "must be the id of an event", given, "leave it out to begin with the newest")
    return int(given)
