"""What is done once with each event of a subposterior: a dead letter if it is bad, a score if it is good.

Chain 0 does it, for positions that its committed segments do not have.
"""

from __future__ import annotations

from streaminfer.bus.protocol import Bus
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.reading.span_events import SpanEvents
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.units import Span, Spans
from streaminfer.spec import Spec
from streaminfer.tables.kinds import drawn_of
from streaminfer.wire.avro import Schemas


class NewEvents:
    """Passes over the positions up to the end of a segment that come after another one, also those of neither."""

    def __init__(
        self, spec: Spec, bus: Bus, segment: Segment, before: Spans, draws: Matrix | None, schemas: Schemas
    ) -> None:
        """`draws` (n, D) are those of the segment before, under which new events are scored; None: they are not."""
        ends = {span.partition: span.end for span in before}
        starts = bus.starts(names.data_topic(spec))  # windows may leave out positions that nobody has judged
        new = tuple(
            Span(
                each.partition, min(max(starts.get(each.partition, 0), ends.get(each.partition, 0)), each.end), each.end
            )
            for each in segment.spans
        )
        self._bus = bus
        self._scored = None if draws is None else drawn_of(spec).scorer(spec, draws)
        self._events: SpanEvents | None = SpanEvents(spec, bus, new, schemas, ends)
        self.score, self.n_scored = 0.0, 0

    def step(self, timeout: float) -> bool:
        """Whether the pass is at its end; each call does a part. Dead letters are durable after it."""
        if self._events is None:
            return True
        part = self._events.read(timeout)
        if part is None:
            self.close()
            return True
        store.publish(self._bus, part.letters)
        if self._scored is not None and part.events.n:
            self.score += self._scored(part.events)
            self.n_scored += part.events.n
        return False

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None
