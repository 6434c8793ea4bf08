"""When the next segment of a subposterior begins, and where it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.sampling import segments
from streaminfer.sampling.segments import Rule, Segment
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec

INTERVAL: Final = 0.2
"""Seconds between looks at the ends of the data."""
QUIET_S: Final = 1.0
"""Seconds without new events after which the first segment begins."""
PATIENCE_S: Final = 10.0
"""Seconds after the first event at which it begins however many are still to come."""


def rule_of(spec: Spec, settings: Settings) -> Rule:
    """When the segments of a spec are due."""
    forget = spec.inference.forget or {}
    window, seconds = forget.get("window_events"), forget.get("window_seconds")
    return Rule(**settings.segment, window=None if window is None else int(window), window_seconds=seconds)


class Ends:
    """Looks at the data topic; `clock` is its master's."""

    def __init__(self, spec: Spec, settings: Settings, bus: Bus, clock: Callable[[], float]) -> None:
        self._spec, self._bus, self._clock = spec, bus, clock
        self._topic = names.data_topic(spec)
        self._rule = rule_of(spec, settings)
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._marks: dict[int, int] = {}
        self._met_at: float | None = None
        self._changed_at = self._looked_at = -INTERVAL

    def look(self) -> bool:
        """Reads the ends of the data and the marks of `--until-idle`; whether it is time to decide on segments."""
        now = self._clock()
        if now - self._looked_at < INTERVAL:
            return False
        self._looked_at = now
        self._starts, ends = self._bus.starts(self._topic), self._bus.ends(self._topic)
        if ends != self._ends:
            self._ends, self._changed_at = ends, now
        if self._met_at is None and any(end > self._starts.get(index, 0) for index, end in ends.items()):
            self._met_at = now
        kept = self._bus.committed(names.until_idle_group(self._spec))
        self._marks = {each.index: at.offset for each, at in kept.items() if each.topic == self._topic}
        return True

    def after(
        self, before: Segment | None, share: tuple[int, int], complete: bool, cut: bool, age_s: float
    ) -> Segment | None:
        """The next segment of subposterior j of J, `share` = (j, J), `age_s` seconds after the one before was fixed.

        None if it is not due. A first one without events is due only if `--until-idle` waits for it.
        """
        spans = segments.spans_of(self._starts, self._ends, share, self._rule.window)
        there = any(span.end > span.start for span in spans)
        if before is None:
            return Segment(0, spans) if self._is_marked() or (there and self._is_time()) else None
        if not (complete or cut):
            return None
        if before.size == 0:
            return Segment(before.number + 1, spans) if there and self._is_time() else None
        new = sum(segments.new_positions(before, spans).values()) > 0
        marked = new and any(self._marks.get(index, 0) > end for index, end in before.ends.items())
        due = cut or marked or segments.is_due(before, spans, self._rule, age_s)
        return Segment(before.number + 1, spans) if due and spans else None

    def n_lost(self, before: Segment | None, cut: bool) -> int:
        """Positions that retention has removed since a segment was fixed, which was maybe `cut` by that."""
        return segments.n_lost(before, self._starts, self._rule.window is not None and not cut)

    def _is_time(self) -> bool:
        """For the first events: no more are to come, or enough time has passed."""
        now = self._clock()
        waited = self._met_at is not None and now - self._met_at >= PATIENCE_S
        return waited or self._is_marked() or now - self._changed_at >= QUIET_S

    def _is_marked(self) -> bool:
        """Whether all events are there that `--until-idle` waits for."""
        return bool(self._marks) and all(self._ends.get(i, 0) >= end for i, end in self._marks.items())
