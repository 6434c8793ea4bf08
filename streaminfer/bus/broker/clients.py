"""Opening clients of kafka-python so that one that fails to connect leaves no thread and no socket behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.net.compat import KafkaNetClient


def opened(make: Callable[..., Any], **options: Any) -> Any:
    """A client made by `make`; its constructor connects, and does not clean up where it cannot."""
    made: list[Any] = []
    # The clients do not take these two, the network below them does; its own ten seconds are longer than a deadline.
    patience = options["request_timeout_ms"] // 2
    setup = {"socket_connection_setup_timeout_ms": patience, "socket_connection_setup_timeout_max_ms": patience}

    def network(**config: Any) -> Any:
        made.append(KafkaNetClient(**config, **setup))
        return made[-1]

    try:
        return make(kafka_client=network, **options)
    except BaseException:
        for client in made:
            client.close()
        raise
