"""What things are called on the broker: all names of a bus with a namespace begin with it."""

from __future__ import annotations

from dataclasses import dataclass

from kafka import TopicPartition

from streaminfer.bus.protocol import Partition


@dataclass(frozen=True)
class Names:
    """Both ways between the bus's names and the broker's."""

    namespace: str = ""

    @property
    def _prefix(self) -> str:
        return f"{self.namespace}." if self.namespace else ""

    def outside(self, name: str) -> str:
        """A topic, group or writer as the broker knows it."""
        return self._prefix + name

    def inside(self, name: str) -> str | None:
        """A topic of the broker as this bus knows it; None if it belongs to others."""
        hidden = name.startswith("__") or not name.startswith(self._prefix)
        return None if hidden else name.removeprefix(self._prefix)

    def place(self, partition: Partition) -> TopicPartition:
        return TopicPartition(self.outside(partition.topic), partition.index)

    def partition(self, place: TopicPartition) -> Partition:
        return Partition(place.topic.removeprefix(self._prefix), place.partition)
