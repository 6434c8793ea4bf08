"""Deletes a topic, as its owner may, on every bus: none of ours has an operation for it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Bus, UnknownTopic
from streaminfer.bus.sqlite.schema import OFFSET_BITS
from tests.simulation.bus import SimulatedBus


def delete_topic(bus: Bus, topic: str) -> None:
    """Afterwards the topic does not exist, for any client."""
    if isinstance(bus, SimulatedBus):
        bus._broker.delete(topic)
    elif isinstance(bus, EmbeddedBus):
        with closing(sqlite3.connect(bus._store.path)) as connection, connection:
            for (id_,) in connection.execute("SELECT id FROM partitions WHERE topic = ?", (topic,)).fetchall():
                low, high = id_ << OFFSET_BITS, (id_ + 1) << OFFSET_BITS
                connection.execute("DELETE FROM log WHERE id >= ? AND id < ?", (low, high))
                connection.execute("DELETE FROM positions WHERE partition = ?", (id_,))
                connection.execute("DELETE FROM owners WHERE partition = ?", (id_,))
            connection.execute("DELETE FROM partitions WHERE topic = ?", (topic,))
            connection.execute("DELETE FROM topics WHERE name = ?", (topic,))
            connection.execute("UPDATE catalog SET version = version + 1")
    else:
        assert isinstance(bus, KafkaBus)
        name = bus.public_name(topic)
        bus._connection.ask("deleting a topic", lambda admin: admin.delete_topics([name]))
        _await_gone(bus, topic)


def _await_gone(bus: Bus, topic: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            bus.topic_id(topic)
        except UnknownTopic:
            return
        time.sleep(0.05)
    raise AssertionError(f"{topic} is still there")
