"""Records of the topic `statistics` that are not a part of what is restored from it."""

from __future__ import annotations

from streaminfer.bus.protocol import Partition, Record
from streaminfer.runtime.following.follower import MOST_IN_THE_WAY
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.owning import obstacles
from streaminfer.runtime.owning.obstacles import InTheWay
from streaminfer.wire.errors import UnknownSchema, WireError
from streaminfer.wire.panes import Shelf


class Aside:
    """What one reading of a partition sets aside; something else must take its place with the next snapshot."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._junk: dict[bytes, InTheWay] = {}
        self._passed: set[bytes] = set()
        self.newest = 0
        """The newest version of all records."""

    def add(self, shelf: Shelf, record: Record) -> None:
        """Puts a record on the shelf, or here; raises Fatal if it is in a schema that this version does not know."""
        key = record.key or b""
        try:
            shelf.add(record.key, value_of(record))
        except WireError as error:
            found = InTheWay(record, str(error))
            if isinstance(error, UnknownSchema):
                raise obstacles.of_unknown_schema(found) from error
            self._junk[key] = found
        else:
            self._junk.pop(key, None)

    def passed(self, shelf: Shelf) -> None:
        """The shelf has what belongs together, and the rest is to go."""
        self._passed = shelf.passed

    @property
    def keys(self) -> set[bytes]:
        return self._passed | set(self._junk)

    @property
    def found(self) -> list[InTheWay]:
        """What is in the way; what was written later, or again, is one."""
        junk = list(self._junk.values())[:MOST_IN_THE_WAY]
        if not self._passed:
            return junk
        why = f"{len(self._passed)} keys have records of other snapshots, such as {min(self._passed)!r}"
        return [*junk, InTheWay(Record(self._partition, 0, 0, None, None), why)]
