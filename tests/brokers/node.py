"""One node of a local Kafka: a Java process in a directory of its own, which can be killed, stopped and started."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.brokers.jars import cache, jars

START_S = 120.0
STOP_S = 60.0
JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A small heap, and a quick start rather than a quick broker."""


def classes() -> Path:
    """The archive of a broker's classes for the Java that is installed; see classes.py, which makes it."""
    java = Path(shutil.which("java") or "java").resolve()
    version = f"{java} {java.stat().st_mtime_ns if java.exists() else 0}"
    return cache() / f"classes-{hashlib.sha256(version.encode()).hexdigest()[:12]}.jsa"


class Node:
    """`port` is that of a listener without security, which tells when the node is ready."""

    def __init__(self, folder: Path, number: int, port: int, properties: Mapping[str, object]) -> None:
        self._folder, self._jars = folder, jars()
        self.number, self.port = number, port
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in properties.items()]
        (folder / "server.properties").write_text("".join(lines))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self, cluster: str, *more: str) -> subprocess.Popen[bytes]:
        """Starts to make the node's directory; `formatted` waits for it."""
        arguments = ("format", "-t", cluster, "-c", "server.properties", *more)
        self._process = self._java("kafka.tools.StorageTool", *arguments)
        return self._process

    def formatted(self) -> None:
        assert self._process is not None
        assert self._process.wait(START_S) == 0, f"the node was not formatted:\n{self.log}"

    def launch(self, *options: str) -> None:
        """Starts the node without waiting for it, with these options of Java in place of the archive of classes."""
        assert not self.running, "the node runs already"
        self._process = self._java("kafka.Kafka", "server.properties", options=options)

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def await_ready(self) -> None:
        """Waits until the node tells clients that it is there, which is later than when its port opens."""
        deadline = time.monotonic() + START_S
        while self.number not in live_brokers(self.port):
            assert self.running, f"the node ended:\n{self.log}"
            assert time.monotonic() < deadline, f"the node is not ready:\n{self.log}"
            time.sleep(0.05)

    def kill(self) -> None:
        """Ends the node without any goodbye; its directory stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, patience: float = STOP_S) -> None:
        """Ends the node in order (SIGTERM): it hands over what it leads."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired as error:
                self.kill()
                raise AssertionError(f"the node did not stop within {patience:g} s") from error

    @property
    def log(self) -> str:
        return (self._folder / "broker.log").read_text(errors="replace")[-4000:]

    def _java(self, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py")), str(os.getpid())]
        command = [
            *launcher,
            *JAVA,
            *(options or [f"-XX:SharedArchiveFile={classes()}"]),
            "-cp",
            f"{self._jars}/*",
            *arguments,
        ]
        with (self._folder / "broker.log").open("ab") as log:
            # A session of its own: Ctrl-C is for the process that started it, which then ends it in order.
            return subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )


def live_brokers(port: int) -> set[int]:
    """The numbers of the brokers that a node knows as alive, by Kafka's Metadata request; none if it is silent."""
    header = struct.pack(">hhih", 3, 1, 1, -1)  # Metadata, version 1, correlation 1, no client
    request = header + struct.pack(">i", 0)  # for no topic
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as link:
        link.settimeout(2)
        link.sendall(struct.pack(">i", len(request)) + request)
        stream = link.makefile("rb")
        raw = stream.read(4)
        reply = stream.read(struct.unpack(">i", raw)[0]) if len(raw) == 4 else b""
        return _broker_numbers(reply)
    return set()


def _broker_numbers(reply: bytes) -> set[int]:
    if len(reply) < 8:
        return set()
    (count,), at, found = struct.unpack_from(">i", reply, 4), 8, set()
    for _ in range(count):
        number, length = struct.unpack_from(">ih", reply, at)
        (rack,) = struct.unpack_from(">h", reply, at + 6 + length + 4)
        at += 6 + length + 4 + 2 + max(0, rack)
        found.add(number)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
