"""The bus for users of Python: snapshots as they come, rows to be absorbed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing
from typing import Any, Self

from streaminfer.bus.connect import default_url, open_bus
from streaminfer.bus.protocol import Bus, UnknownTopic
from streaminfer.runtime import names, provide
from streaminfer.runtime.api import missing, subposterior
from streaminfer.runtime.api.readers import Reader, reader_of
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following import key_listing
from streaminfer.runtime.following.key_listing import KeySummary
from streaminfer.runtime.following.keys import KeyedSnapshots
from streaminfer.runtime.loading.produce import check_spec, publish_rows
from streaminfer.runtime.registry import schemas
from streaminfer.spec import Spec
from streaminfer.tables.demanded import key_of
from streaminfer.wire.avro import Schemas

LOOK_S = 0.5
"""Seconds between looks for a topic that does not exist yet."""


def connect(url: str | None = None) -> Connection:
    """Opens a bus by its address (default: STREAMINFER_BUS, else the embedded bus in ./.streaminfer)."""
    return Connection(open_bus(url or default_url()))


class Connection:
    """A bus as a source of snapshots and a sink of rows. Use it as a context manager."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._schemas: dict[str, Schemas] = {}
        """By spec name, once there is nothing more to be learned from a registry."""
        self._checked: set[str] = set()
        """Fingerprints of specs whose posteriors are theirs."""

    def snapshot(self, spec: Spec, key: str | None = None) -> PosteriorSnapshot | None:
        """The posterior now, or that of a key; None if there is none, or not yet."""
        try:
            reader = reader_of(spec, self.bus, key, self._ids(spec))
        except UnknownTopic:
            return None
        with closing(reader):
            return reader.newest()

    def subposterior(self, spec: Spec, index: int) -> PosteriorSnapshot | None:
        """One part of a sampled posterior now; None if it has no draws yet. Raises NoSuchSubposterior."""
        try:
            return subposterior.newest(spec, self.bus, schemas.look_up(spec, self.bus, ["draws"]), index)
        except UnknownTopic:
            return None

    def why_missing(self, spec: Spec) -> str | None:
        """Why there is no snapshot of a sampled posterior, if more can be said than that nothing has begun."""
        return missing.why(spec, self.bus, self._ids(spec))

    def by_key(self, spec: Spec, labels: AbstractSet[bytes]) -> SnapshotsByKey | None:
        """The posteriors of several keys (in UTF-8) now, by one reading; None if there is none yet.

        A key that no event has is there, with what all keys start from and `n_events` 0.
        """
        key_of(spec)
        try:
            found = KeyedSnapshots(spec, self.bus, labels, self._ids(spec))
        except UnknownTopic:
            return None
        return SnapshotsByKey(spec, found) if found.are_there else None

    def keys(self, spec: Spec, after: str = "", limit: int = 100) -> list[KeySummary]:
        """The first keys of a keyed posterior after one, in the order of their bytes in UTF-8."""
        key_of(spec)
        try:
            return key_listing.page(spec, self.bus, after.encode(), limit, self._ids(spec))
        except UnknownTopic:
            return []

    def subscribe(
        self, spec: Spec, timeout: float | None = None, key: str | None = None
    ) -> Iterator[PosteriorSnapshot]:
        """The posterior now and every snapshot after it; ends when none has come for `timeout` seconds.

        Of a `key`: every snapshot in which that key has changed.
        """
        if not self._await_writers(spec, timeout):
            return
        with closing(reader_of(spec, self.bus, key, self._ids(spec))) as reader:
            newest = reader.newest()
            if newest is not None:
                yield newest
            while found := _next(reader, timeout):
                yield from found

    def is_there(self, spec: Spec) -> bool:
        """Whether the topics of a posterior exist."""
        try:
            return bool(self.bus.ends(names.topic(spec, "posterior")))
        except UnknownTopic:
            return False

    def produce(self, spec: Spec, rows: Iterable[Mapping[str, Any]]) -> int:
        """Writes rows to the spec's data topic; returns how many. Raises NotOurs if that is external."""
        names.own_data_topic(spec)
        provide.topics(spec, self.bus, "produce")
        if spec.fingerprint not in self._checked:
            check_spec(spec, self.bus, self._ids(spec))
            self._checked.add(spec.fingerprint)
        return publish_rows(spec, self.bus, rows, schemas.for_events(spec, self.bus))

    def _ids(self, spec: Spec) -> Schemas:
        """The ids that snapshots have, from the registry if there is one; readers register nothing."""
        if spec.name in self._schemas:
            return self._schemas[spec.name]
        found = schemas.look_up(spec, self.bus, ["posterior"])
        if found.registered or not schemas.configured():
            self._schemas[spec.name] = found
        return found

    def _await_writers(self, spec: Spec, timeout: float | None) -> bool:
        """Waits for the topic, which a reader does not make, and whether it has come.

        If a registry has no id yet, it also waits for the first snapshot: it gets one before it is written.
        """
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            there = True
            try:
                if any(self.bus.ends(names.topic(spec, "posterior")).values()):
                    return True
                if self._ids(spec).registered or not schemas.configured():
                    return True
            except UnknownTopic:
                there = False
            if time.monotonic() >= deadline:
                return there
            time.sleep(min(LOOK_S, max(0.0, deadline - time.monotonic())))

    def close(self) -> None:
        self.bus.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class SnapshotsByKey:
    """`found[label]` is the posterior of a key, made when it is asked for."""

    def __init__(self, spec: Spec, found: KeyedSnapshots) -> None:
        self._spec, self._found = spec, found

    def __getitem__(self, label: bytes) -> PosteriorSnapshot:
        return PosteriorSnapshot(self._spec, self._found.of(label), label.decode())


def _next(reader: Reader, timeout: float | None) -> list[PosteriorSnapshot]:
    """Waits for snapshots; polls may come back early without one, so the time is watched here."""
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    while (left := deadline - time.monotonic()) > 0:
        found = reader.poll(min(0.5, left))
        if found:
            return found
    return []
