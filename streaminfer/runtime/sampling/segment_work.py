"""What all chains of a subposterior need for a segment: its rows and its set-up, made once in a process."""

from __future__ import annotations

import logging
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.mode import NoModeError
from streaminfer.models.targets.reading import reading_of
from streaminfer.runtime.reading.span_events import Read, SpanEvents
from streaminfer.runtime.sampling import scratch
from streaminfer.runtime.sampling.scratch import About, Check, RowsFile
from streaminfer.runtime.service import Fatal
from streaminfer.sampling.chains import packing, setting_up
from streaminfer.sampling.chains.prepared import OfData, Prepared, of_data
from streaminfer.sampling.chains.setting_up import Setup, Slices
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas

log = logging.getLogger(__name__)


def _digest(known: str) -> str:
    """A few letters for a file's name."""
    return blake2b(known.encode(), digest_size=8).hexdigest()


class SegmentRows:
    """The rows of a segment: of a file that is here, or read from the log while the lock is this process's."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        target: Any,
        share: tuple[int, int],
        segment: Segment,
        topic_id: str,
        schemas: Schemas,
    ) -> None:
        self._spec, self._bus, self._target, self._segment, self._schemas = spec, bus, target, segment, schemas
        self._series = f"{spec.name}-{_digest(f'{bus} {spec.fingerprint} {topic_id} {share}')}"
        self._file = RowsFile(f"{self._series}-{segment.number}-{_digest(str(segment))}", target.columns)
        self._check: Check | None = None
        self._found: About | None = None
        """What the file that is compared should have."""
        self._events: SpanEvents | None = None
        self._reading = reading_of(target)
        self._times: list[Vector] = []
        self._lengths: list[NDArray[np.intp]] = []
        self._n_bad = self._n_rows = 0
        self.about: About | None = None
        """Once the rows are there."""

    def step(self, timeout: float) -> bool:
        """Whether the rows are there; each call does a part. Raises Removed."""
        if self.about is not None:
            return True
        if self._events is not None:
            self._read(timeout)
        elif self._check is not None:
            self._look()
        else:
            with suppress(FileNotFoundError):  # the folder was removed just now: the next call makes it again
                self._open()
        return self.about is not None

    def _open(self) -> None:
        """The file that is here, or a new one."""
        if (found := self._file.about()) is not None:
            self._check, self._found = Check(self._file.path, found), found
        elif self._file.lock() and self._file.about() is None:
            self._file.begin(self._segment.size)
            self._times, self._lengths, self._n_bad, self._n_rows = [], [], 0, 0
            self._events = SpanEvents(self._spec, self._bus, self._segment.spans, self._schemas)

    @property
    def progress(self) -> str:
        """What it does; empty while it waits for another process."""
        if self._events is not None:
            return f"reading {self._events.position:,} of {self._segment.size:,} positions"
        return "" if self._check is None else "comparing the rows in scratch with their digest"

    @property
    def waits(self) -> bool:
        """Whether another process reads what this one needs."""
        return self.about is None and self._events is None and self._check is None

    def mapped(self) -> Matrix:
        if self.about is None:
            raise RuntimeError("the rows are not there yet")
        rows = self._file.mapped(self.about)
        scratch.remove_earlier(self._series, self._segment.number)
        return rows

    def _look(self) -> None:
        """Compares a file that was here with its digest."""
        check = self._check
        right = None if check is None else check.step()
        if check is None or right is None:
            return
        self._check = None
        if right:
            self._file.compared(check)
            self.about = self._found
            return
        check.close()
        if self._file.lock():
            log.warning("%s is not what it says: it is read again", self._file.path)
            self._file.remove()

    def _read(self, timeout: float) -> None:
        if self._events is None:
            return
        part = self._events.read(timeout)
        if part is not None:
            self._n_bad += part.n_bad
            if part.events.n:
                self._add(self._events.position, part)
            return
        self._events = None
        if self._spec.inference.by_time:
            self._keep_window()
        self.about = self._file.end(self._n_bad)
        self._file.unlock()

    def _add(self, done: int, part: Read) -> None:
        """Writes the rows of events, if there is room for those of all positions; so many are `done`."""
        rows = self._reading.rows(self._target, part.events)
        self._n_rows += len(rows)
        self._file.expect(self._n_rows * (self._segment.size - done) / max(1, done))
        self._file.add(rows, part.events.n)
        if part.times is not None:
            self._times.append(part.times)
            self._lengths.append(self._reading.lengths(rows))

    def _keep_window(self) -> None:
        """Leaves out what is older than the window before the newest event, here or of all subposteriors."""
        times = np.concatenate([np.empty(0), *self._times])
        lengths = np.concatenate([np.empty(0, dtype=np.intp), *self._lengths])
        self._times, self._lengths = [], []
        seconds = (self._spec.inference.forget or {}).get("window_seconds")
        if seconds is not None and len(times):
            cut_off = self._segment.cut_off
            self._file.keep(times > (times.max() - seconds if cut_off is None else cut_off), lengths)

    def close(self) -> None:
        if self._check is not None:
            self._check.close()
        if self._events is not None:
            self._events.close()
        self._file.close()


class SegmentWork:
    """Rows, density and set-up of a segment. `offered` is a set-up that a chain has from an earlier process."""

    def __init__(
        self, spec: Spec, settings: Settings, bus: Bus, target: Any, unit: Unit, segment: Segment, topic_id: str,
        schemas: Schemas,
    ) -> None:  # fmt: skip
        self._settings, self._target, self._unit = settings, target, unit
        self.segment, self.topic_id = segment, topic_id
        share = (unit.subposterior, unit.subposteriors)
        self.rows = SegmentRows(spec, bus, target, share, segment, topic_id, schemas)
        self.density: Density | None = None
        self.setup: Setup | None = None
        self._slices: Slices | None = None
        self._of_data: OfData | None = None
        self.progress = ""
        """What the work on rows and set-up is at."""

    def read(self, timeout: float) -> bool:
        """Whether the rows are there; each call does a part. Raises Removed."""
        if self.density is None and self.rows.step(timeout) and (rows := self.rows.mapped()) is not None:
            self.density = reading_of(self._target).density(self._target, rows, 1 / self._unit.subposteriors)
        if self.density is None:
            self.progress = self.rows.progress
        return self.density is not None

    @property
    def about(self) -> About:
        if self.rows.about is None:
            raise RuntimeError("the rows are not there yet")
        return self.rows.about

    def offer(self, numbers: Vector) -> None:
        """Takes over a set-up that was committed, so that draws stay the same whatever computes it anew."""
        if self.setup is None and self.density is not None and len(numbers):
            self.setup = packing.unflatten(setting_up.blank(self.density, self._settings), numbers)

    def set_up(self) -> bool:
        """Whether the set-up is there; each call does a part. Raises Fatal if there is none."""
        if self.density is None:
            return False
        if self.setup is None:
            if self._slices is None:
                key = Key(self._settings.seed, "steps", self._unit._replace(chain=0).number, self.segment.number)
                self._slices = setting_up.slices(self.density, self._settings, key, self.segment.number == 0)
            try:
                self.progress = next(self._slices)
            except StopIteration as end:
                self.setup = end.value
            except NoModeError as error:
                raise Fatal(f"the mode of the posterior was not found: {error}") from error
        if self.setup is not None and self._of_data is None:
            self._of_data = of_data(self.density, self._settings, self.setup)
        return self.setup is not None

    def prepared(self, unit: Unit) -> Prepared:
        """What a chain of this segment is computed from."""
        if self.density is None or self.setup is None or self._of_data is None:
            raise RuntimeError("the segment is not set up yet")
        key = Key(self._settings.seed, "steps", unit.number, self.segment.number)
        return Prepared(self.density, self._settings, key, self.setup, self._of_data)

    def close(self) -> None:
        self.rows.close()
