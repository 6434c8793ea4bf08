"""Server-sent events: new versions come, a client goes on where it was, and one that never reads costs little."""

from __future__ import annotations

import json
import os
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from streaminfer.http.answering import streaming
from streaminfer.http.guarding.limits import Limits
from tests.http.site import Site, counted, site_of


class Listening:
    """A client of a stream."""

    def __init__(self, connection: socket.socket, lines: Iterator[bytes]) -> None:
        self.connection, self._lines = connection, lines

    def next(self, name: str) -> tuple[str | None, Any]:
        """The id and the data of the next event of a name."""
        number, found, data = None, "", None
        for line in self._lines:
            text = line.decode().rstrip("\r\n")
            field, _, value = text.partition(": ")
            if field == "id":
                number = value
            elif field == "event":
                found = value
            elif field == "data":
                data = json.loads(value)
            elif not text and found:
                if found == name:
                    return number, data
                number, found = None, ""
        raise EOFError


@contextmanager
def listening(site: Site, last: int | None = None) -> Iterator[Listening]:
    with closing(site.connect()) as connection:
        more = "" if last is None else f"Last-Event-ID: {last}\r\n"
        connection.sendall(f"GET {site.one}/events HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
        file = connection.makefile("rb")
        head = list(iter(file.readline, b"\r\n"))
        assert head[0] == b"HTTP/1.1 200 OK\r\n"
        assert b"content-type: text/event-stream; charset=utf-8\r\n" in head
        yield Listening(connection, _chunks(file))


def _chunks(file: Any) -> Iterator[bytes]:
    """Lines of a body in chunks."""
    while size := int(file.readline() or b"0", 16):
        yield from file.read(size).splitlines(keepends=True)
        file.readline()


@pytest.fixture
def own() -> Iterator[Site]:
    with site_of(counted()) as found:
        yield found


def test_the_newest_version_comes_at_once_and_then_each_newer_one(own: Site) -> None:
    before = own.ask(own.one).document
    with listening(own) as client:
        number, data = client.next("posterior")
        assert (number, data["version"], data["n_events"]) == (str(before["version"]), before["version"], 10)
        own.add(1, 2, 3, 4)
        number, data = client.next("posterior")
        assert data["n_events"] == 14
        assert int(number or "") > before["version"]


def test_a_client_that_comes_back_hears_what_it_has_missed_and_nothing_twice(own: Site) -> None:
    before = own.ask(own.one).document["version"]
    own.add(1, 2, 3, 4)
    with listening(own, before) as client:
        assert client.next("posterior")[1]["n_events"] == 14
    newest = own.ask(own.one).document["version"]
    with listening(own, newest) as client:
        client.next("services")  # all that is not of a version is said at the beginning
        own.add(5, 6, 7, 8)
        assert client.next("posterior")[1]["n_events"] == 18
    assert own.ask(f"{own.one}/events", headers={"Last-Event-ID": "x"}).document["field"] == "Last-Event-ID"


def test_events_come_at_most_ten_times_a_second_and_the_newest_wins(own: Site) -> None:
    with listening(own) as client:
        begun = time.monotonic()
        while time.monotonic() - begun < 1.0:
            own.memory.changed("dead-letters")
            time.sleep(0.002)
        newest, stamps = own.memory.stamps["dead-letters"], [-1]
        while stamps[-1] < newest:
            stamps.append(client.next("dead-letters")[1]["stamp"])
        assert newest > 50
        assert len(stamps) <= 10 * (time.monotonic() - begun) + 3


def test_streams_are_counted() -> None:
    with site_of(counted(), limits=Limits(streams=2)) as site:
        with listening(site), listening(site):
            refused = site.ask(f"{site.one}/events")
            assert (refused.status, refused.document["field"]) == (503, "streams")
        end = time.monotonic() + 20
        while _status(site, f"{site.one}/events") != b"HTTP/1.1 200" and time.monotonic() < end:
            time.sleep(0.05)
        assert time.monotonic() < end, "streams that ended still count"


def test_the_head_of_a_stream_holds_nothing(site: Site) -> None:
    answer = site.ask(f"{site.one}/events", "HEAD")
    assert (answer.status, answer.kind) == (200, "text/event-stream; charset=utf-8")


def _status(site: Site, path: str) -> bytes:
    """The beginning of an answer whose end is not waited for."""
    with site.connect() as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return connection.recv(12)


def test_a_stream_ends_after_its_time() -> None:
    limits = Limits(stream_seconds=0.3)
    with site_of(counted(), limits=limits) as site, listening(site) as client, pytest.raises(EOFError):
        client.next("nothing")


def test_pieces_of_an_answer_do_not_wait_for_each_other(own: Site) -> None:
    with listening(own):
        (connection,) = own.server.connections
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "else each answer takes 40 ms"


def resident() -> int:
    """Bytes of memory of this process, in which the server is."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("path", ["events", "sample?n=10000"])
def test_a_client_that_never_reads_costs_bounded_memory_and_is_cut(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is queued for it: it holds at most what the buffer of a connection does. Here events are large."""
    event = streaming._event
    monkeypatch.setattr(streaming, "PAUSE", 0.001)
    monkeypatch.setattr(streaming, "_event", lambda *rest: event(*rest) + b":" * 200_000 + b"\n\n")
    with site_of(counted(), limits=Limits(write_seconds=1.0)) as site, closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", site.port))
        connection.sendall(f"GET {site.one}/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 200)
        before, end, most = resident(), time.monotonic() + 25, 0
        time.sleep(0.5)
        while site.server.n_connections and time.monotonic() < end:
            site.memory.changed("dead-letters")
            most = max(most, resident() - before)
            time.sleep(0.002)
        assert site.server.n_connections == 0, "it was cut"
        assert most < 64 << 20
        assert site.ask("/healthz").status == 200


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_streams_for_ten_minutes_take_no_more_than_at_their_beginning(own: Site) -> None:
    """Memory and descriptors of the process that has both ends are flat while ten versions a second come."""
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(200):
            connection = stack.enter_context(closing(own.connect()))
            connection.sendall(f"GET {own.one}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            selector.register(connection, selectors.EVENT_READ)
        begun, taken, seen = time.monotonic(), list[tuple[int, int]](), 0
        while time.monotonic() - begun < 600:
            own.memory.changed("metrics")
            for key, _ in selector.select(0.1):
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                assert data, "a stream has ended"
                seen += data.count(b"event: metrics")
            taken.append((resident(), len(os.listdir("/proc/self/fd"))))
            time.sleep(0.05)
    warm = taken[len(taken) // 10 :]
    assert seen > 200 * 600
    assert max(descriptors for _, descriptors in warm) == min(descriptors for _, descriptors in warm)
    assert warm[-1][0] - warm[0][0] < 8 << 20
