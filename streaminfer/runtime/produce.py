"""Events onto the data topic. A file's place is committed with its rows, so a killed `produce` repeats nothing."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from streaminfer.bus.protocol import Bus, Output, Partition, Position, Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.files import Counted, FileError, encode, reader_of
from streaminfer.spec import Spec

log = logging.getLogger(__name__)

BATCH_ROWS: Final = 1000
BATCH_BYTES: Final = 4 << 20


class Progress(NamedTuple):
    """How far a file is: rows on the bus, bytes read and in all."""

    rows: int
    bytes_read: int
    bytes_total: int


class Loader:
    """Puts one file onto the data topic of a spec.

    The place (rows so far, a digest of them, whether it is done) is a position of a group named after the file, so a
    loader that was killed goes on where it stopped, and one that had ended starts from the beginning: loading twice
    appends twice.
    """

    def __init__(self, spec: Spec, bus: Bus, path: Path) -> None:
        self._spec, self._bus, self._path = spec, bus, path
        self._reader = reader_of(path)
        if not path.is_file():
            raise FileError(f"{path}: is no file that can be read")
        self._topic = names.own_data_topic(spec)
        self._partitions = len(bus.starts(self._topic))
        identity = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
        self._group = f"{spec.name}.produce.{identity}"
        self._digest = hashlib.sha256()
        self._done = False
        self._ending: tuple[int, str] | None = None
        self.resumed = 0
        """Rows that an earlier, unfinished run had put on the bus."""

    def run(self) -> Iterator[Progress]:
        """Loads the file, a batch for each progress, the last being the whole; a bus that is away is waited for."""
        progress = Progress(0, 0, self._path.stat().st_size)
        while not self._done:
            try:
                for progress in self._load():
                    yield progress
            except Unavailable as error:
                log.warning("%s: %s; going on from its place on the bus", self._path, error)
                yield progress

    def _load(self) -> Iterator[Progress]:
        """From the place on the bus to the end of the file."""
        total = self._path.stat().st_size
        self._digest = hashlib.sha256()
        with self._bus.writer(self._group) as writer, self._path.open("rb") as stream:
            lines = Counted(stream, str(self._path))
            rows = self._reader(self._spec, lines, str(self._path))
            if self._had_ended():
                self._done = True
                return
            count = self._skip(rows)
            while batch := _batch(rows):
                outputs = [
                    Output(self._topic, value, partition=(count + i) % self._partitions)
                    for i, value in enumerate(batch)
                ]
                self._update(batch)
                count += len(batch)
                writer.commit(outputs, self._place(count, done=False), self._group)
                yield Progress(count, lines.bytes, total)
            self._ending = (count, self._digest.hexdigest())
            writer.commit([], self._place(count, done=True), self._group)
            self._done = True
            yield Progress(count, lines.bytes, total)

    def _had_ended(self) -> bool:
        """Whether the commit of the end took effect although the bus did not say so."""
        kept = self._bus.committed(self._group).get(Partition(self._topic, 0))
        if kept is None or self._ending is None:
            return False
        place = json.loads(kept.note)
        return bool(place["done"]) and (kept.offset, place["digest"]) == self._ending

    def _skip(self, rows: Iterator[bytes]) -> int:
        """Passes over the rows that are on the bus already, checking that they are the same ones."""
        kept = self._bus.committed(self._group).get(Partition(self._topic, 0))
        if kept is None:
            return 0
        place = json.loads(kept.note)
        if place["done"]:
            return 0
        self._update(islice(rows, kept.offset))
        if self._digest.hexdigest() != place["digest"]:
            raise FileError(
                f"{self._path}: its first {kept.offset} rows are not those that an interrupted run put on the bus; "
                "restore the file, or load it under another name"
            )
        self.resumed = kept.offset
        return kept.offset

    def _update(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._digest.update(len(value).to_bytes(4, "big"))
            self._digest.update(value)

    def _place(self, count: int, done: bool) -> dict[Partition, Position]:
        note = json.dumps({"file": self._path.name[:200], "digest": self._digest.hexdigest(), "done": done})
        return {Partition(self._topic, 0): Position(count, note)}


def publish_rows(spec: Spec, bus: Bus, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes rows to the data topic, each a JSON object; returns how many."""
    topic, count = names.own_data_topic(spec), 0
    values = (encode(row) for row in rows)
    while batch := _batch(values):
        bus.publish([Output(topic, value) for value in batch])
        count += len(batch)
    return count


def _batch(rows: Iterator[bytes]) -> Sequence[bytes]:
    """The next rows that go together: at most BATCH_ROWS of them and about BATCH_BYTES."""
    batch, size = [], 0
    for row in rows:
        batch.append(row)
        size += len(row)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            break
    return batch
