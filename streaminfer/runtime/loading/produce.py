"""Events onto the data topic. A file's place is committed with its rows, so a killed `produce` repeats nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from streaminfer.bus.protocol import Bus, Output, Partition, Position, Unavailable, Writer
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters.tally import Judge, Tally
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.loading.files import Counted, FileError, encode
from streaminfer.runtime.loading.gzipped import lines_of
from streaminfer.runtime.loading.partitioning import Dealer
from streaminfer.runtime.loading.readers import STREAMED, reader_of
from streaminfer.runtime.loading.zones import Zones
from streaminfer.runtime.patience import Patience, gave_up, naps
from streaminfer.spec import Spec
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.json_events import EventFormat

log = logging.getLogger(__name__)

BATCH_RECORDS: Final = 1000
BATCH_BYTES: Final = 4 << 20


class Progress(NamedTuple):
    """How far a file is: rows on the bus, bytes read and in all (0: not known)."""

    rows: int
    bytes_read: int
    bytes_total: int


class Loader:
    """Puts one file onto the data topic of a spec.

    The place (rows so far, a digest of them, whether it is done) is a position of a group named after the file. So a
    loader that was killed goes on at that place. One that had ended starts from the beginning: loading twice appends
    twice.
    """

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        path: Path,
        schemas: Schemas = DECLARED,
        batch_rows: int | None = None,
        give_up_s: float | None = None,
        judged: bool = False,
    ) -> None:
        """`batch_rows` are the most rows of one commit, if they shall be fewer than usual. `give_up_s` are the seconds
        without a row on the bus after which Unavailable is raised; None waits for ever. `judged`: whether to count the
        rows that will be dead letters, which takes about as long as a worker takes to read them."""
        self._give_up_s, self._worked_at = give_up_s, time.monotonic()
        self._spec, self._bus, self._path = spec, bus, path
        self._format, self._batch_rows = format_of(spec, schemas), batch_rows
        self._dealer, self._judge = Dealer(spec), Judge(spec, schemas) if judged else None
        self._reader = reader_of(path)
        if not path.is_file():
            raise FileError(f"{path}: is not a file that can be read")
        self._topic = names.own_data_topic(spec)
        self._partitions = len(bus.starts(self._topic))
        identity = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
        self._group = f"{names.loaders(spec)}{identity}"
        self._zones = Zones(spec.time_field, str(path))
        self._digest = hashlib.sha256()
        self._begun = self._done = False
        self._ending: tuple[int, str] | None = None
        self.resumed = 0
        """Rows that an earlier, unfinished run had put on the bus."""
        self.refused = Tally()
        """Those of this run's rows on the bus that will certainly be dead letters."""
        self._uncertain: tuple[int, Tally] | None = None
        """The same of rows whose commit has no answer yet, and the place after them."""

    def run(self) -> Iterator[Progress]:
        """Loads the file, a batch for each progress, the last being the whole; a bus that is away is waited for.

        Meanwhile the same progress comes some times a second.
        """
        progress, waits = Progress(0, 0, self._path.stat().st_size), Patience(log)
        while not self._done:
            try:
                for progress in self._load():
                    waits.worked()
                    self._worked_at = time.monotonic()
                    yield progress
            except Unavailable as error:
                yield from self._wait(error, waits, progress)

    def _wait(self, error: Unavailable, waits: Patience, progress: Progress) -> Iterator[Progress]:
        pause = waits.failed(
            f"{self._path}: {error}; trying again, continuing after the rows that are already on the bus"
        )
        waited = time.monotonic() - self._worked_at
        if self._give_up_s is not None and waited >= self._give_up_s:
            raise gave_up(error, waited, f"{self._path}: run it again to continue where it stopped") from error
        for _ in naps(pause):
            yield progress

    def _load(self) -> Iterator[Progress]:
        """From the place on the bus to the end of the file."""
        total = self._path.stat().st_size
        self._digest = hashlib.sha256()
        with self._bus.writer(self._group) as writer, lines_of(self._path) as lines:
            rows = self._zones.watched(self._reader(self._spec, lines, str(self._path)), lines)
            if self._had_ended():
                self._done = True
                return
            count = self._skip(rows)
            self._begun = True
            while batch := _batch(rows, self._format, self._batch_rows):
                outputs = self._dealer.outputs(self._format, self._topic, self._partitions, count, batch)
                self._update(batch)
                count += len(batch)
                self._uncertain = (count, self._judge.refused(outputs)) if self._judge is not None else None
                writer.commit(outputs, self._place(count, done=False), self._group)
                self._settle(count)
                yield Progress(count, lines.n_read, total)
            self._ending = (count, self._digest.hexdigest())
            writer.commit([], self._place(count, done=True), self._group)
            self._done = True
            yield Progress(count, lines.n_read, total)

    def _settle(self, count: int) -> None:
        """Counts the refused rows of a commit that was uncertain, now that `count` rows are on the bus."""
        if self._uncertain is not None and self._uncertain[0] <= count:
            self.refused.add_all(self._uncertain[1])
        self._uncertain = None

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
        if not self._begun:
            self.resumed = kept.offset
        self._settle(kept.offset)
        return kept.offset

    def _update(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._digest.update(len(value).to_bytes(4, "big"))
            self._digest.update(value)

    def _place(self, count: int, done: bool) -> dict[Partition, Position]:
        note = json.dumps({"file": self._path.name[:200], "digest": self._digest.hexdigest(), "done": done})
        return {Partition(self._topic, 0): Position(count, note)}


class Piped:
    """Puts standard input onto the data topic of a spec. What was read cannot be read again, so nothing is resumed;
    within one run a bus that is away is waited for, and no row is lost or repeated."""

    resumed = 0

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        stream: BinaryIO,
        kind: str,
        schemas: Schemas = DECLARED,
        batch_rows: int | None = None,
    ) -> None:
        self._bus, self._topic, self._batch_rows = bus, names.own_data_topic(spec), batch_rows
        self._format, self._partitions = format_of(spec, schemas), len(bus.starts(self._topic))
        self._dealer, self._judge = Dealer(spec), Judge(spec, schemas)
        self.refused = Tally()
        self._lines = Counted(stream, "standard input")
        rows = STREAMED[kind](spec, self._lines, "standard input")
        self._rows = Zones(spec.time_field, "standard input").watched(rows, self._lines)
        self._group = f"{names.loaders(spec)}{uuid.uuid4().hex[:16]}"
        self._writer: Writer | None = None

    def run(self) -> Iterator[Progress]:
        """Loads to the end of the stream, a batch for each progress."""
        count, waits = 0, Patience(log)
        try:
            while batch := _batch(self._rows, self._format, self._batch_rows):
                outputs = self._dealer.outputs(self._format, self._topic, self._partitions, count, batch)
                while (error := self._commit(outputs, count + len(batch))) is not None:
                    for _ in naps(waits.failed(f"standard input: {error}; trying again, no row is lost")):
                        yield Progress(count, self._lines.n_read, 0)
                waits.worked()
                self.refused.add_all(self._judge.refused(outputs))
                count += len(batch)
                yield Progress(count, self._lines.n_read, 0)
        finally:
            self._close()
        yield Progress(count, self._lines.n_read, 0)

    def _commit(self, outputs: Sequence[Output], after: int) -> Unavailable | None:
        """Why a batch is not on the bus yet; a commit without an answer may have taken effect."""
        place = Partition(self._topic, 0)
        try:
            if self._writer is None:
                self._writer = self._bus.writer(self._group)
                kept = self._bus.committed(self._group).get(place)
                if kept is not None and kept.offset == after:
                    return None
            self._writer.commit(outputs, {place: Position(after, "{}")}, self._group)
        except Unavailable as error:
            self._close()
            return error
        return None

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def check_spec(spec: Spec, bus: Bus, schemas: Schemas = DECLARED) -> None:
    """Raises OtherSpec if the posterior of this name is another spec's, whose topic has events of its kind."""
    follower = Follower(spec, bus, schemas=schemas)
    try:
        follower.catch_up()
    finally:
        follower.close()


def publish_rows(spec: Spec, bus: Bus, rows: Iterable[Mapping[str, Any]], schemas: Schemas = DECLARED) -> int:
    """Writes rows to the data topic in the spec's format; returns how many."""
    topic, count = names.own_data_topic(spec), 0
    made, dealer, partitions = format_of(spec, schemas), Dealer(spec), len(bus.starts(topic))
    values = (encode(row) for row in rows)
    while batch := _batch(values, made):
        bus.publish(dealer.outputs(made, topic, partitions, None, batch))
        count += len(batch)
    return count


def _batch(rows: Iterator[bytes], made: EventFormat, most: int | None = None) -> Sequence[bytes]:
    """The next rows that go together: those of at most BATCH_RECORDS records, and about BATCH_BYTES."""
    most = min(BATCH_RECORDS * made.events_per_record, most or sys.maxsize)
    batch, size = [], 0
    for row in rows:
        batch.append(row)
        size += len(row)
        if len(batch) >= most or size >= BATCH_BYTES:
            break
    return batch
