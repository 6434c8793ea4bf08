"""Connections to Kafka come and go; threads, sockets and files of this process stay as many as they were."""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import BusError, Output, Partition, Topic, Unavailable

DEADLINE_S = 4.0
P0 = Partition("t", 0)


@pytest.fixture
def address(kafka_address: str) -> Address:
    return Address((kafka_address,), uuid.uuid4().hex[:8])


def open_files() -> int:
    gc.collect()  # kafka-python leaves closed connections in cycles
    return len(os.listdir("/proc/self/fd"))


def links(port: int) -> Iterator[socket.socket]:
    """Every connection of this process to a port."""
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            if os.readlink(path).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(path.name))) as link:
                    if link.family == socket.AF_INET and link.getpeername()[1] == port:
                        yield link


def cut(port: int) -> int:
    """Drops every connection to a port, as a network does; how many there were."""
    count = 0
    for link in links(port):
        link.shutdown(socket.SHUT_RDWR)
        count += 1
    return count


def eventually(attempt: Callable[[], object]) -> None:
    deadline = time.monotonic() + 2 * DEADLINE_S
    while True:
        try:
            attempt()
        except Unavailable:
            assert time.monotonic() < deadline
        else:
            return


def test_fifty_dropped_connections_leave_nothing_behind(address: Address) -> None:
    port = int(address.servers[0].rpartition(":")[2])
    with KafkaBus(address, session_s=6, deadline_s=DEADLINE_S) as bus:
        bus.create([Topic("t", 1)])
        reader, member = bus.reader({P0: 0}), bus.member("g", ["t"], "one")

        def commit() -> None:
            with bus.writer("w") as writer:
                writer.commit([Output("t", b"x")])

        def use() -> None:
            for attempt in (lambda: bus.publish([Output("t", b"x")]), lambda: bus.ends("t"), commit):
                eventually(attempt)
            for each in (reader, member):
                eventually(lambda each=each: each.poll(0.05))

        use()
        use()
        threads, files = threading.active_count(), open_files()
        for _ in range(50):
            assert cut(port) >= 3, "admin, reader and member have connections"
            use()
        assert threading.active_count() <= threads
        assert open_files() <= files + 1, "one more while a client asks where the leader is"


def test_twenty_buses_leave_nothing_behind(address: Address) -> None:
    def use() -> None:
        with KafkaBus(address, session_s=6, deadline_s=DEADLINE_S) as bus:
            bus.create([Topic("t", 1)])
            bus.publish([Output("t", b"x")])
            writer, member, reader = bus.writer("w"), bus.member("g", ["t"], "one"), bus.reader({P0: 0})
            writer.commit([Output("t", b"x")])
            member.poll(0.1)
            reader.poll(0.1)
            with pytest.raises(BusError):
                bus.publish([Output("nope", b"x")])

    use()
    threads, files = threading.active_count(), open_files()
    for _ in range(20):
        use()
    assert threading.active_count() <= threads
    assert open_files() <= files
