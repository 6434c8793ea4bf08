"""Requests as fast as answers come, over a few connections: how many a second, and how long each took."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import NamedTuple

import numpy as np

HOSTS = [f"127.0.0.{i}" for i in range(1, 9)]
"""Where the connections come from: a monitor allows each address so many requests a second."""


class Load(NamedTuple):
    """What one client saw."""

    rate: float
    """Answers a second."""
    p99: float
    """Milliseconds."""


def request(path: str, body: bytes = b"") -> bytes:
    """A request of HTTP/1.1; with a body it is a POST of JSON."""
    method, more = (
        ("POST", f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n") if body else ("GET", "")
    )
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode() + body


async def _ask(port: int, text: bytes, until: float, took: list[float], host: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(text)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200"):
            raise SystemExit(head.decode())
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        took.append(time.perf_counter() - begun)
    writer.close()
    await writer.wait_closed()


async def _all(port: int, text: bytes, seconds: float) -> Load:
    took: list[float] = []
    begun = time.perf_counter()
    await asyncio.gather(*(_ask(port, text, begun + seconds, took, host) for host in HOSTS))
    return Load(len(took) / (time.perf_counter() - begun), 1000 * float(np.quantile(took, 0.99)))


def main(port: int, path: str, body: str, seconds: float) -> None:
    print(json.dumps(asyncio.run(_all(port, request(path, body.encode()), seconds))))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))
