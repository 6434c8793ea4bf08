"""What is known of a posterior without measuring it: what waits, what is under way, what is missing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from streaminfer.bus.protocol import Bus, OutOfRange, Partition
from streaminfer.measuring.judging.verdict import State
from streaminfer.runtime import names
from streaminfer.runtime.pooling.next_segment import rule_of
from streaminfer.sampling import segments
from streaminfer.sampling.pooled.shown import Shown
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.tables import draws
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.snapshot import Snapshot

LOOK_S: Final = 1.0
"""Seconds that a look at the first waiting event may take."""


def state_of(spec: Spec, bus: Bus, snapshot: Snapshot | None, silent: Collection[str], now: int) -> State:
    """The state of a posterior `now`, in milliseconds since 1970."""
    if snapshot is None:
        return State(silent=tuple(silent))
    ends = bus.ends(names.data_topic(spec))
    waits = waiting_seconds(spec, bus, snapshot, ends, now)
    counts, drift, sampled = snapshot.counts, snapshot.drift, snapshot.payload.sampled
    chains = spec.sampling if sampled is not None else None
    return State(
        version=snapshot.version,
        n_events=counts.n_events,
        n_dead_lettered=counts.n_dead_lettered,
        n_lost=counts.n_lost,
        n_rejected=counts.n_rejected,
        exactness=kind_of(spec).exactness(spec, snapshot),
        keyed=kind_of(spec).by_key,
        mixture=spec.model.kind == "gaussian_mixture",
        waiting_seconds=waits,
        under_way=sampled is not None and _is_under_way(sampled.shown),
        segment_due=chains is None or sampled is None or _is_due(spec, chains, sampled.shown, bus, ends, now),
        faults=tuple(draws.faults(spec, snapshot)) if sampled is not None else (),
        silent=tuple(silent),
        alarm_at=-1 if drift is None or not drift.n_alarms else drift.alarm_at,
    )


def waiting_seconds(spec: Spec, bus: Bus, snapshot: Snapshot, ends: dict[int, int], now: int) -> float:
    """How long ago the oldest event came that is not in the posterior; 0: none waits.

    Positions without records, such as the marks of transactions, do not wait.
    """
    topic, positions = names.data_topic(spec), snapshot.frontier.positions
    lagging = {Partition(topic, i): positions[i] for i, end in ends.items() if positions.get(i, end) < end}
    if not lagging:
        return 0.0
    stamps = []
    with bus.reader(lagging) as reader:
        try:
            found = reader.poll(LOOK_S, max_records=max(1, len(lagging)))
        except OutOfRange:
            return 0.0  # retention was faster: what is lost is counted by who reads on
        stamps = [part.records[0].timestamp for part in found.slices if part.records]
    return max(0.0, (now - min(stamps)) / 1000) if stamps else 0.0


def _is_under_way(shown: Shown) -> bool:
    """Whether chains have not all draws yet of the newest segment that was fixed."""
    newest = max((each.number for each in shown.segments), default=shown.segment)
    return not shown.complete or newest > shown.segment


def _is_due(spec: Spec, settings: Settings, shown: Shown, bus: Bus, ends: dict[int, int], now: int) -> bool:
    """Whether a subposterior has enough new events for its next segment."""
    rule, starts = rule_of(spec, settings), bus.starts(names.data_topic(spec))
    for fixed in shown.segments:
        share = (fixed.subposterior, settings.subposteriors)
        spans = segments.spans_of(starts, ends, share, rule.window)
        before = Segment(fixed.number, fixed.spans)
        if segments.is_due(before, spans, rule, max(0, now - fixed.fixed_at) / 1000):
            return True
    return not shown.segments
