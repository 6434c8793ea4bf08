"""Sockets of connections that failed are closed at once.

kafka-python leaves them to the garbage collector. While a broker is away every attempt keeps a file open, dozens in a
minute, until the oldest generation happens to be collected.
"""

from __future__ import annotations

from typing import Any

from kafka.net.inet import KafkaNetSocket

_connect = KafkaNetSocket.sock_connect


async def _connect_or_close(self: Any, net: Any, sock: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return await _connect(self, net, sock, *arguments, **options)
    except BaseException:
        sock.close()
        raise


def install() -> None:
    """Makes kafka-python connect so. It has no setting for it."""
    KafkaNetSocket.sock_connect = _connect_or_close
