"""Segments: which events a chain targets, and when the next ones are due. All in positions of the data topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streaminfer.sampling.units import Span, Spans, is_of

Positions = Mapping[int, int]
"""By partition."""


class Segment(NamedTuple):
    """The events of a subposterior at fixed positions. Numbers start at 0."""

    number: int
    spans: Spans
    cut_off: float | None = None
    """In a window of time that subposteriors share, when its events begin, in seconds since 1970."""

    @property
    def size(self) -> int:
        """How many positions it has."""
        return sum(span.end - span.start for span in self.spans)

    @property
    def ends(self) -> dict[int, int]:
        return {span.partition: span.end for span in self.spans}


class Rule(NamedTuple):
    """When the next segment is due: after `growth` times the events, `events` more, or `seconds` later."""

    growth: float | None = None
    events: float | None = None
    seconds: float | None = None
    window: int | None = None
    """Of each partition the last positions that count; None: all."""
    window_seconds: float | None = None
    """How old an event may be that counts; None: as old as it is."""


def spans_of(starts: Positions, ends: Positions, share: tuple[int, int], window: int | None = None) -> Spans:
    """All positions of the partitions of subposterior j of J, `share` = (j, J), or the last of each."""
    return tuple(
        Span(partition, max(starts.get(partition, 0), 0 if window is None else end - window), end)
        for partition, end in sorted(ends.items())
        if is_of(partition, share)
    )


def new_positions(before: Segment, spans: Spans) -> dict[int, int]:
    """By partition, how many have come since the ends of a segment."""
    ends = before.ends
    return {span.partition: max(0, span.end - ends.get(span.partition, span.start)) for span in spans}


def is_due(before: Segment, spans: Spans, rule: Rule, seconds: float) -> bool:
    """Whether the next segment should begin `seconds` after the one before."""
    new = new_positions(before, spans)
    total = sum(new.values())
    if total == 0:
        return False
    if rule.events is not None:
        return total >= rule.events
    if rule.seconds is not None:
        return seconds >= rule.seconds
    more = (rule.growth or 1.0) - 1
    if rule.window is not None:
        return max(new.values()) >= more * rule.window
    if rule.window_seconds is not None:
        return seconds >= more * rule.window_seconds
    return total >= more * before.size


def n_lost(before: Segment | None, starts: Positions, forgotten: bool) -> int:
    """Positions that retention has removed since the segment before: from the posterior, or before they were read.

    Those of the segment before do not count if a window would have `forgotten` them anyway.
    """
    if before is None:
        return 0
    return sum(max(0, starts.get(span.partition, 0) - (span.end if forgotten else span.start)) for span in before.spans)
