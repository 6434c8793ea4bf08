"""Events onto the data topic. A file's place is committed with its rows, so a killed `produce` repeats nothing."""

from __future__ import annotations

import gc
import hashlib
import json
import logging
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
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
from streaminfer.runtime.loading.parts import Batches, Part, ahead, texts
from streaminfer.runtime.loading.readers import PORTION, STREAMED, reader_of
from streaminfer.runtime.loading.sources import OPENERS, Place, Source
from streaminfer.runtime.loading.zones import Zones
from streaminfer.runtime.running.patience import Patience, gave_up, naps
from streaminfer.spec import Spec
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.json_events import EventFormat

log = logging.getLogger(__name__)

BATCH_RECORDS: Final = 10_000
BATCH_BYTES: Final = 4 << 20
"""Of a file, or of texts."""
LIVE_RECORDS: Final = 1000
"""Fewer of a stream that may pause, as its rows wait until there are as many."""


class Progress(NamedTuple):
    """How far a file is: rows on the bus, bytes read and in all (0: not known)."""

    rows: int
    bytes_read: int
    bytes_total: int


class Loader:
    """Puts one file onto the data topic of a spec.

    The place (rows so far, a digest of the file before it, whether it is done) is a position of a group named after
    the file. So a loader that was killed goes on at that place. One that had ended starts from the beginning: loading
    twice appends twice.
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
        self._begun = self._done = False
        self._ending: Place | None = None
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
        with self._bus.writer(self._group) as writer, lines_of(self._path) as lines:
            source = OPENERS[self._reader](self._spec, lines, str(self._path), self._format, self._judge is not None)
            if self._had_ended():
                self._done = True
                return
            self._go_on(source)
            self._begun = True
            with closing(ahead(self._zones.watched(source.parts(), lines))) as parts:
                for count in self._commits(writer, source, Batches(parts)):
                    yield Progress(count, lines.n_read, total)
            self._ending = source.place()
            writer.commit([], self._position(self._ending, done=True), self._group)
            self._done = True
            yield Progress(self._ending.rows, lines.n_read, total)

    def _commits(self, writer: Writer, source: Source, batches: Batches) -> Iterator[int]:
        """Commits batch after batch, each with the place after it; yields the rows so far."""
        while batch := _batch(batches, self._format, BATCH_RECORDS, self._batch_rows):
            with uncollected():
                runs = [part.run for part in batch]
                outputs = self._dealer.outputs(self._format, self._topic, self._partitions, source.place().rows, runs)
                for part in batch:
                    source.passed(part)
                place = source.place()
                self._uncertain = (place.rows, self._refused(batch, outputs))
                writer.commit(outputs, self._position(place, done=False), self._group)
            self._settle(place.rows)
            yield place.rows

    def _refused(self, batch: Sequence[Part], outputs: Sequence[Output]) -> Tally:
        if self._judge is None or all(part.sound for part in batch):
            return Tally()
        return self._judge.refused(outputs)

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
        note = json.loads(kept.note)
        return bool(note["done"]) and Place.read(kept.offset, note) == self._ending

    def _go_on(self, source: Source) -> None:
        """Skips the rows that are on the bus; raises FileError if the file has others now."""
        kept = self._bus.committed(self._group).get(Partition(self._topic, 0))
        if kept is None:
            return
        note = json.loads(kept.note)
        if note["done"]:
            return
        if not source.skip(Place.read(kept.offset, note)):
            raise FileError(
                f"{self._path}: its first {kept.offset} rows are not those that an interrupted run put on the bus; "
                "restore the file, or load it under another name"
            )
        if not self._begun:
            self.resumed = kept.offset
        self._settle(kept.offset)

    def _position(self, place: Place, done: bool) -> dict[Partition, Position]:
        return {Partition(self._topic, 0): Position(place.rows, place.note(self._path.name, done))}


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
        self._lines = Counted(stream, "standard input", live=True)
        source = OPENERS[STREAMED[kind]](spec, self._lines, "standard input", self._format, True)
        self._batches = Batches(Zones(spec.time_field, "standard input").watched(source.parts(), self._lines))
        self._group = f"{names.loaders(spec)}{uuid.uuid4().hex[:16]}"
        self._writer: Writer | None = None

    def run(self) -> Iterator[Progress]:
        """Loads to the end of the stream, a batch for each progress."""
        count, waits = 0, Patience(log)
        try:
            while batch := _batch(self._batches, self._format, LIVE_RECORDS, self._batch_rows):
                outputs = self._dealer.outputs(
                    self._format, self._topic, self._partitions, count, [part.run for part in batch]
                )
                after = count + sum(part.n for part in batch)
                while (error := self._commit(outputs, after)) is not None:
                    for _ in naps(waits.failed(f"standard input: {error}; trying again, no row is lost")):
                        yield Progress(count, self._lines.n_read, 0)
                waits.worked()
                if not all(part.sound for part in batch):
                    self.refused.add_all(self._judge.refused(outputs))
                count = after
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


@contextmanager
def uncollected() -> Iterator[None]:
    """Without a search for garbage among the many small objects of a batch, which have no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


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
    batches = Batches(texts(part) for part in iter(lambda: list(islice(values, PORTION)), []))
    while batch := _batch(batches, made, BATCH_RECORDS):
        bus.publish(dealer.outputs(made, topic, partitions, None, [part.run for part in batch]))
        count += sum(part.n for part in batch)
    return count


def _batch(batches: Batches, made: EventFormat, records: int, most: int | None = None) -> Sequence[Part]:
    """The next rows that go together: those of at most so many records and `most` rows, and about BATCH_BYTES."""
    together = made.events_per_record
    return batches.next(min(records * together, most or sys.maxsize), together, BATCH_BYTES)
