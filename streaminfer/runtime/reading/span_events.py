"""The good events of some positions, by partition and then by position, read from the log in slices."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus, OutOfRange, Output, Partition, Reader, Record
from streaminfer.models.events import Events
from streaminfer.models.model import Vector
from streaminfer.runtime import names
from streaminfer.runtime.reading import bad_events
from streaminfer.runtime.reading.bad_events import Judged
from streaminfer.sampling.units import Span, Spans
from streaminfer.spec import Spec
from streaminfer.variational.forgetting.reached import Reached
from streaminfer.wire.avro import Schemas
from streaminfer.wire.events.formats import format_of

MOST_RECORDS: Final = 10_000
"""Of one slice: decoding them takes a part of a second."""


class Removed(Exception):
    """Retention has removed events of a span before they were read."""

    def __init__(self, span: Span, start: int) -> None:
        super().__init__(f"partition {span.partition} of the segment starts at {span.start}, the log at {start}")


class Read(NamedTuple):
    """Good events of one partition, their times (n,) if those matter, and dead letters of the bad ones."""

    partition: int
    judged: Judged
    letters: list[Output]

    @property
    def events(self) -> Events:
        return self.judged.taken.events

    @property
    def times(self) -> Vector | None:
        return self.judged.taken.places

    @property
    def n_bad(self) -> int:
        return self.judged.n_bad

    @property
    def positions(self) -> NDArray[np.int64]:
        """Of the events' records, (n,)."""
        return self.judged.positions()


class SpanEvents:
    """Reads the positions of spans one after the other.

    Bad events from `letters_from` on, by partition, get dead letters; None: no event does. `reached` says what time a
    partition had reached at the start of its span, if that is known.
    """

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        spans: Spans,
        schemas: Schemas,
        letters_from: Mapping[int, int] | None = None,
        reached: Mapping[int, Reached] = MappingProxyType({}),
    ) -> None:
        self._spec, self._bus, self._letters_from, self._before = spec, bus, letters_from, reached
        self._topic = names.data_topic(spec)
        self._format = format_of(spec, schemas)
        self._left = list(spans)
        self._reader: Reader | None = None
        self._reached: Reached = ()
        self.position = 0
        """How many positions are behind."""

    def read(self, timeout: float) -> Read | None:
        """The next events, maybe none; None after the last. Raises Removed."""
        if not self._left:
            return None
        span = self._left[0]
        partition = Partition(self._topic, span.partition)
        if self._reader is None:
            self._open(span, partition)
        if self._reader is None:  # the span is empty
            return self._taken(span.partition, [])
        begin = self._reader.position(partition)
        try:
            polled = self._reader.poll(timeout, MOST_RECORDS)
        except OutOfRange as error:
            raise Removed(span, error.start) from error
        records = [each for part in polled.slices for each in part.records if each.offset < span.end]
        at = min(self._reader.position(partition), span.end)
        self.position += at - begin
        if at >= span.end:
            self._next()
        return self._taken(span.partition, records)

    def _open(self, span: Span, partition: Partition) -> None:
        start = self._bus.starts(self._topic).get(span.partition, 0)
        if start > span.start:
            raise Removed(span, start)
        if span.end > span.start:
            self._reader, self._reached = (
                self._bus.reader({partition: span.start}),
                self._before.get(span.partition, ()),
            )
        else:
            self._next()

    def _next(self) -> None:
        self._left.pop(0)
        self.close()

    def _taken(self, partition: int, records: list[Record]) -> Read:
        judged = bad_events.judge(self._spec, self._format, records, False, self._reached)
        self._reached = judged.taken.reached
        letters = [] if self._letters_from is None else judged.letters(self._spec, self._letters_from)
        return Read(partition, judged, letters)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
