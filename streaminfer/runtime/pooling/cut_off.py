"""Where a window of time begins for all subposteriors: so many seconds before the newest event of any of them."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus
from streaminfer.models.times import EARLIEST
from streaminfer.runtime.reading.span_events import Removed, SpanEvents
from streaminfer.sampling.segments import Segment
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def window_of_all(spec: Spec) -> float | None:
    """Seconds of a window that several subposteriors have in common; None without one.

    Each alone would cut by its own newest event. So their segments are fixed together, with one cut-off.
    """
    if spec.sampling is None or spec.sampling.subposteriors == 1:
        return None
    return (spec.inference.forget or {}).get("window_seconds")


class CutOff:
    """Reads the times of a segment's events, as the samplers will, before the segment is fixed."""

    def __init__(self, spec: Spec, bus: Bus, segment: Segment, schemas: Schemas) -> None:
        """`segment` has the positions of all subposteriors."""
        self.segment = segment
        self._seconds = window_of_all(spec) or 0.0
        self._events = SpanEvents(spec, bus, segment.spans, schemas, None)
        self._newest: float | None = None
        self.removed = False
        """Whether retention was faster: another segment is to be fixed."""

    def step(self) -> float | None:
        """Reads on; the cut-off in seconds since 1970 once all times are known."""
        try:
            part = self._events.read(0.0)
        except Removed:
            self.removed = True
            return None
        if part is None:
            # Without a good event any time does.
            return max(EARLIEST, (self._newest or 0.0) - self._seconds)
        if part.times is not None and len(part.times):
            newest = float(part.times.max())
            self._newest = newest if self._newest is None else max(self._newest, newest)
        return None

    def close(self) -> None:
        self._events.close()
