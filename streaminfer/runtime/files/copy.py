"""The records that a posterior is now, as a compacted log has them, in the form that a file keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from streaminfer.bus.protocol import Partition, Record, Unreadable
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.snapshots import MANIFEST


class Copy:
    """The newest record of each key of some partitions. `keeps` says which record keys are wanted."""

    def __init__(self, keeps: Callable[[bytes], bool] = lambda _: True) -> None:
        self._keeps = keeps
        self._held: dict[Partition, dict[bytes, Record]] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Takes in records in the order of their logs; what nobody can read is not a part of anything."""
        for record in records:
            if record.key is None or isinstance(record, Unreadable) or not self._keeps(record.key):
                continue
            held = self._held.setdefault(record.partition, {})
            held.pop(record.key, None)
            if record.value is not None:
                held[record.key] = record

    def records(self, partition: Partition) -> list[Record]:
        """In the order of their log."""
        return list(self._held.get(partition, {}).values())


class Complete:
    """Records up to the last manifest: those after it wait for theirs."""

    def __init__(self, copy: Copy) -> None:
        self._copy, self._waiting = copy, dict[Partition, list[Record]]()

    def add(self, partition: Partition, records: Iterable[Record]) -> bool:
        """Whether a manifest has come."""
        come = False
        waiting = self._waiting.setdefault(partition, [])
        for record in records:
            waiting.append(record)
            if record.key == MANIFEST:
                self._copy.add(waiting)
                waiting.clear()
                come = True
        return come


def portable(records: Iterable[Record], topic: str, schemas: Schemas) -> Iterator[Record]:
    """Records of a declared topic (its short name) with the id that is declared for its schema.

    The ids that a schema registry has given mean nothing to readers of another one. Raises WireError if a record cannot
    be read.
    """
    declared = DECLARED.id_of(topic).to_bytes(4, "big")
    for record in records:
        value = record.value or b""
        if value[1:5] == declared:
            yield record
        else:
            yield replace(record, value=DECLARED.encode(topic, schemas.decode(topic, value)))
