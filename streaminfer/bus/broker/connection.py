"""One connection to a cluster: what its clients have in common, and the client for everything but records."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import (
    CoordinatorNotAvailableError,
    FetchSessionIdNotFoundError,
    KafkaError,
    NodeNotReadyError,
    NotCoordinatorError,
    RetriableError,
    UnknownBrokerIdError,
    UnknownTopicOrPartitionError,
)

from streaminfer.bus.broker.clients import opened
from streaminfer.bus.broker.errors import translated
from streaminfer.bus.broker.names import Names
from streaminfer.bus.broker.needs import NONE, Kind, Need, Needs
from streaminfer.bus.broker.settings import Address, Settings
from streaminfer.bus.protocol import BusError, Partition

T = TypeVar("T")

RETRY_S: Final = 0.1
MOVED: Final = (CoordinatorNotAvailableError, NodeNotReadyError, NotCoordinatorError, UnknownBrokerIdError)
"""Another broker may be the coordinator or the controller by now; an admin client never asks again which one is."""

# Its debug messages show records; its errors are raised as well, and told once instead of several times a second.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class Connection:
    """`deadline_s`: how long any one thing may take before it counts as unavailable."""

    def __init__(self, address: Address, settings: Settings, session_s: float, deadline_s: float) -> None:
        self.address, self.settings = address, settings
        self.session_s, self.deadline_s = session_s, deadline_s
        self.names = Names(address.namespace)
        self.hidden: dict[Partition, int] = {}
        """Offsets that its writers committed and readers cannot see yet: a transaction of others stands before them."""
        self._admin: Any = None
        self._closed = False

    @property
    def deadline_ms(self) -> int:
        return int(self.deadline_s * 1000)

    def client_options(self) -> dict[str, Any]:
        """What every client gets: half a deadline for one request, so that a lost one can be tried again."""
        return {
            "bootstrap_servers": list(self.address.servers),
            "request_timeout_ms": self.deadline_ms // 2,
            "bootstrap_timeout_ms": self.deadline_ms // 2,
            "reconnect_backoff_ms": 50,
            "reconnect_backoff_max_ms": 1000,
            "metadata_max_age_ms": 5000,
            **self.settings.security,
            "login": self.settings.login,
        }

    def needs(self, operation: str, kind: Kind, *names: str) -> Needs:
        """The right that something takes; names are those of this bus."""
        found = [Need(operation, kind, self.names.outside(name)) for name in names]
        return Needs(found, f"User:{self.settings.user or 'NAME'}", ",".join(self.address.servers))

    def ask(self, what: str, question: Callable[[Any], T], needs: Needs = NONE) -> T:
        """Puts a question that may be repeated to the admin client; raises the bus's errors, in time."""
        last_try = time.monotonic() + self.deadline_s / 2
        while True:
            self.check_open()
            with translated(what, needs):
                try:
                    if self._admin is None:
                        self._admin = opened(KafkaAdminClient, **self.client_options())
                    return question(self._admin)
                except UnknownTopicOrPartitionError:
                    raise
                except (RetriableError, FetchSessionIdNotFoundError, *MOVED, OSError) as error:
                    if isinstance(error, MOVED):
                        self.drop_admin()
                    if time.monotonic() + RETRY_S >= last_try:
                        self.drop_admin()
                        raise
                except KafkaError:
                    self.drop_admin()
                    raise
            time.sleep(RETRY_S)

    def drop_admin(self) -> None:
        """Closes the admin client; the next question opens another."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def check_open(self) -> None:
        if self._closed:
            raise BusError("this bus is closed")

    def close(self) -> None:
        self._closed = True
        self.drop_admin()
