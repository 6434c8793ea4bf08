"""A proxy before a broker that loses replies: the broker has done what was asked, and the client never hears of it.

It can also be a bad network, which delays messages either way or ends connections between any two of them.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self

from tests.brokers.node import free_port
from tests.kafka_broker import Listener, LocalBroker, local_broker

APIS = {"Produce": 0, "OffsetCommit": 8, "InitProducerId": 22, "AddPartitionsToTxn": 24, "AddOffsetsToTxn": 25,
        "EndTxn": 26, "TxnOffsetCommit": 28}  # fmt: skip
"""Requests by which a client changes something, with Kafka's numbers for them."""
MAX_FRAME = 64 << 20

Rule = Callable[[int], bool]
"""Whether the reply to the n-th request of its kind, from 1, is lost."""

Weather = Callable[[], float | None]
"""For how many seconds a message is under way; None: its connection ends before it arrives."""


def calm() -> float:
    return 0.0


class DroppingProxy:
    """Passes everything on, and ends a connection when the reply comes that is to be lost."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._rules: dict[int, Rule] = {}
        self._counts: Counter[int] = Counter()
        self._open: set[socket.socket] = set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.dropped: Counter[str] = Counter()
        self.weather: Weather = calm
        threading.Thread(target=self._accept, daemon=True).start()

    def drop(self, rules: dict[str, Rule]) -> None:
        """New rules for requests by name; counting starts again."""
        with self._lock:
            self._rules = {APIS[name]: rule for name, rule in rules.items()}
            self._counts.clear()
            self.dropped.clear()

    def close(self) -> None:
        with self._lock:
            ends = [self._server, *self._open]
        for end in ends:
            _close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            broker = socket.create_connection(("127.0.0.1", self._target), 5)
        except OSError:
            _close(client)
            return
        broker.settimeout(None)
        ends = {client, broker}
        with self._lock:
            self._open |= ends
        lost: set[int] = set()
        back = threading.Thread(target=self._replies, args=(broker, client, lost), daemon=True)
        back.start()
        self._requests(client, broker, lost)
        back.join()
        with self._lock:
            self._open -= ends

    def _requests(self, client: socket.socket, broker: socket.socket, lost: set[int]) -> None:
        with suppress(OSError):
            for frame in _frames(client):
                api, _, correlation = struct.unpack_from(">hhi", frame)
                if self._due(api):
                    lost.add(correlation)  # before the broker can answer
                if not self._arrives():
                    break
                broker.sendall(struct.pack(">i", len(frame)) + frame)
        _close(client, broker)

    def _replies(self, broker: socket.socket, client: socket.socket, lost: set[int]) -> None:
        with suppress(OSError):
            for frame in _frames(broker):
                if struct.unpack_from(">i", frame)[0] in lost:
                    break
                if not self._arrives():
                    break
                client.sendall(struct.pack(">i", len(frame)) + frame)
        _close(client, broker)

    def _arrives(self) -> bool:
        """Waits while a message is under way; false if its connection ends."""
        seconds = self.weather()
        if seconds is not None:
            time.sleep(seconds)
        return seconds is not None

    def _due(self, api: int) -> bool:
        with self._lock:
            self._counts[api] += 1
            rule = self._rules.get(api)
            due = rule is not None and rule(self._counts[api])
            if due:
                self.dropped[next(name for name, number in APIS.items() if number == api)] += 1
            return due


def _frames(stream: socket.socket) -> Iterator[bytes]:
    """Kafka's messages, each after its length, until the stream ends."""
    with stream.makefile("rb") as file:
        while len(head := file.read(4)) == 4:
            (length,) = struct.unpack(">i", head)
            if not 8 <= length <= MAX_FRAME:
                return
            frame = file.read(length)
            if len(frame) < length:
                return
            yield frame


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)  # wakes up any thread that reads from it
        end.close()


@contextmanager
def broker_behind_proxy() -> Iterator[tuple[LocalBroker, DroppingProxy]]:
    """A broker that sends the clients of one of its listeners to the proxy; its own address stays undisturbed."""
    behind = free_port()
    with (
        DroppingProxy(behind) as proxy,
        local_broker(listeners={"PROXIED": Listener(behind, advertised=proxy.port)}) as broker,
    ):
        yield broker, proxy
