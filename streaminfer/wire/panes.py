"""Panes of a window, or batches of memoized, as records of a compacted topic.

One each, or several if the statistics do not fit into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from streaminfer.variational.increment import Pane
from streaminfer.wire import vectors
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue
from streaminfer.wire.increments import LARGEST_INDEX, MAX_PARTS

TOPIC: Final = "statistics"
ENVELOPE: Final = 1024
"""Bytes left for all but the statistics of a record."""


class PanePlace(NamedTuple):
    """The place of a pane: its clock, and its index there. For a batch: its partition, and its first position."""

    clock: int
    pane: int


def keys(place: PanePlace, size: int, max_bytes: int) -> list[bytes]:
    """The keys of a pane's records."""
    return [_key(place, part) for part in range(vectors.n_pieces(size, max_bytes - ENVELOPE))]


def encode(
    place: PanePlace, pane: Pane, fingerprint: str, version: int, max_bytes: int, schemas: Schemas = DECLARED
) -> list[tuple[bytes, bytes]]:
    """(key, record) of every part of a pane, none larger than `max_bytes`."""
    packed = vectors.pack(pane.statistics)
    return encode_bytes(place, pane.n_events, packed, fingerprint, version, max_bytes, schemas)


def encode_bytes(
    place: PanePlace, n_events: int, data: bytes, fingerprint: str, version: int, max_bytes: int, schemas: Schemas
) -> list[tuple[bytes, bytes]]:
    """The same for statistics that are packed already."""
    pieces = vectors.cut(data, max_bytes - ENVELOPE)
    common = {
        "fingerprint": fingerprint,
        "version": version,
        "clock": place.clock,
        "pane": place.pane,
        "n_events": n_events,
        "parts": len(pieces),
    }
    return [
        (_key(place, part), schemas.encode(TOPIC, {**common, "part": part, "statistics": piece}))
        for part, piece in enumerate(pieces)
    ]


class Stored(NamedTuple):
    """A whole pane, and its statistics as they are packed."""

    place: PanePlace
    n_events: int
    pieces: Sequence[bytes]


class Shelf:
    """Takes the records of the topic in their order; what is left in the end are the live panes.

    `most` bounds the records that are held at a time, and `size` the numbers of each; it has `least` events or more.
    With `newest` they are those of that version: what is later is passed over, as far as the log still has it.
    Versions only rise, so a record below the one before it was appended again.
    """

    def __init__(
        self,
        fingerprint: str,
        size: int,
        most: int,
        schemas: Schemas = DECLARED,
        least: int = 1,
        newest: int = LARGEST_INDEX,
    ) -> None:
        self._fingerprint, self._size, self._most, self._schemas = fingerprint, size, most, schemas
        self._least, self._newest = least, newest
        self._held: dict[bytes, Mapping[str, Any]] = {}
        self._dropped: list[tuple[bytes, Mapping[str, Any]]] = []
        """What tombstones have taken away since the last record: nothing says which version these have."""
        self.passed: set[bytes] = set()
        """Keys of records that were passed over: something else must take their place."""
        self.seen = 0
        """The newest version of all."""
        self._taken = 0

    def add(self, key: bytes | None, data: bytes | None) -> None:
        """One record; a tombstone takes a pane away. Raises WireError if it is not a pane of this spec."""
        if data is None:
            if key in self._held:
                self._dropped.append((key, self._held.pop(key)))
            return
        value = self._schemas.decode(TOPIC, data)
        if value["fingerprint"] != self._fingerprint:
            raise BadValue(f"fingerprint must be {self._fingerprint} (got {value['fingerprint'][:20]!r})")
        numbers = (value["clock"], value["part"], value["parts"] - 1 - value["part"])
        if min(numbers) < 0 or value["parts"] > MAX_PARTS or abs(value["pane"]) > LARGEST_INDEX:
            raise BadValue(f"part {value['part']} of {value['parts']} of pane {value['pane']} cannot be")
        if (
            value["n_events"] < self._least
            or not 1 <= value["version"] <= LARGEST_INDEX
            or len(value["statistics"]) > 8 * self._size
        ):
            raise BadValue(f"{value['n_events']} events of version {value['version']} are not a pane")
        if key != _key(PanePlace(value["clock"], value["pane"]), value["part"]):
            raise BadValue(f"the key must be that of pane {value['pane']} (got {key!r})")
        self.seen = max(self.seen, value["version"])
        if not self._taken <= value["version"] <= self._newest:
            self.passed.add(key)
            return
        if key not in self._held and len(self._held) >= self._most:
            raise BadValue(f"there must not be more than {self._most} records of live panes")
        self._taken = value["version"]
        self._held[key] = value
        self.passed.discard(key)
        self._dropped.clear()

    def put_back(self) -> bool:
        """Takes the last tombstone for one of a later version; whether there was one since the last record."""
        if not self._dropped:
            return False
        key, value = self._dropped.pop()
        self._held[key] = value
        self.passed.add(key)
        return True

    def pane(self, place: PanePlace) -> Pane | None:
        """One of them; None if it does not exist; raises BadValue if it is not whole."""
        first = self._held.get(_key(place, 0))
        if first is None:
            return None
        held = (self._held.get(_key(place, part)) for part in range(first["parts"]))
        stored = self._stored(place, [value for value in held if value is not None], first["version"])
        return Pane(stored.n_events, vectors.join(stored.pieces, self._size))

    def panes(self, version: int) -> dict[int, dict[int, Pane]]:
        """The panes by clock and index; raises BadValue if one is not whole, or newer than a version."""
        found: dict[int, dict[int, Pane]] = {}
        for place, n_events, pieces in self.whole(version):
            found.setdefault(place.clock, {})[place.pane] = Pane(n_events, vectors.join(pieces, self._size))
        return found

    def whole(self, version: int) -> Iterator[Stored]:
        """The same, as they are packed, in the order of their places."""
        parts: dict[PanePlace, list[Mapping[str, Any]]] = {}
        for value in self._held.values():
            parts.setdefault(PanePlace(value["clock"], value["pane"]), []).append(value)
        for place, values in sorted(parts.items()):
            yield self._stored(place, values, version)

    def _stored(self, place: PanePlace, values: Sequence[Mapping[str, Any]], version: int) -> Stored:
        values = sorted(values, key=lambda value: int(value["part"]))
        first = values[0]
        alike = {(value["version"], value["n_events"], value["parts"]) for value in values}
        if len(alike) > 1 or len(values) != first["parts"]:
            raise BadValue(f"pane {place.pane} of clock {place.clock} is not whole")
        if first["version"] > version:
            raise BadValue(f"pane {place.pane} of clock {place.clock} is of the later version {first['version']}")
        return Stored(place, first["n_events"], [value["statistics"] for value in values])


def _key(place: PanePlace, part: int) -> bytes:
    return f"{place.clock}/{place.pane}/{part}".encode()
