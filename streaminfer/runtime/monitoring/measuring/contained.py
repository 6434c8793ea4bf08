"""Which events a snapshot contains, or those since an older one: positions, and what they weigh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.model import Model, Vector
from streaminfer.sampling.units import Span, Spans
from streaminfer.spec import Spec
from streaminfer.variational.forgetting import decay, rules
from streaminfer.variational.forgetting.decay import ByEvents, ByTime
from streaminfer.variational.forgetting.reached import Reached
from streaminfer.variational.forgetting.windows import LastEvents, LastSeconds
from streaminfer.variational.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Contained:
    """The events of a snapshot, or those that it has and an older one has not."""

    spans: Spans
    reached: Mapping[int, Reached]
    """What time partitions had reached at the start of their spans, if that is known."""
    n_events: int | None
    """How many good events there must be; None: a window leaves out some of them."""


def all_of(spec: Spec, snapshot: Snapshot, starts: Mapping[int, int]) -> Contained:
    """All events that count, if the log has them; `starts` are those of its partitions."""
    _check_reactions(spec, snapshot)
    ends, window = _ends(snapshot), rules.window_of(spec.inference.forget)
    first = {index: snapshot.frontier.starts.get(index, starts.get(index, 0)) for index in ends}
    n_events = _in_log(snapshot)
    if isinstance(window, LastEvents) and spec.sampling is None:
        first = {index: max(at, window.oldest(ends[index]) * window.pane) for index, at in first.items()}
        n_events = round(snapshot.n_effective)
    elif window is not None:
        n_events = None if spec.sampling is None else n_events
    spans = tuple(Span(index, min(first[index], end), end) for index, end in sorted(ends.items()))
    return Contained(spans, {}, n_events)


def since(spec: Spec, snapshot: Snapshot, base: Snapshot) -> Contained:
    """The events between two snapshots of one pass."""
    _check_reactions(spec, snapshot)
    if base.frontier.topic_id != snapshot.frontier.topic_id or base.frontier.epoch != snapshot.frontier.epoch:
        raise Unknowable("The older snapshot is of another pass over the data, or of another topic.")
    ends, begins = snapshot.frontier.positions, base.frontier.positions
    if not ends.keys() <= begins.keys():
        raise Unknowable("There are new partitions since the older snapshot.", "Wait for the next one.")
    spans = tuple(Span(index, min(begins[index], end), end) for index, end in sorted(ends.items()))
    newer, older = _in_log(snapshot), _in_log(base)
    return Contained(spans, base.frontier.reached, None if newer is None or older is None else newer - older)


def _in_log(snapshot: Snapshot) -> int | None:
    """Events of a snapshot, and those that its master has refused; a later pass counts the latter once more."""
    n_rejected = snapshot.counts.n_rejected
    return None if n_rejected and snapshot.frontier.epoch else snapshot.n_events + n_rejected


def _ends(snapshot: Snapshot) -> Mapping[int, int]:
    """A later pass has all events up to its end, and beyond it those that came since."""
    frontier = snapshot.frontier
    if frontier.epoch == 0:
        return frontier.positions
    return {index: max(at, frontier.ends.get(index, at)) for index, at in frontier.positions.items()}


def _check_reactions(spec: Spec, snapshot: Snapshot) -> None:
    reacts = spec.drift is not None and spec.drift.react is not None
    if reacts and snapshot.drift is not None and snapshot.drift.n_alarms:
        raise Unknowable("An alarm of drift has made the posterior forget, and the log does not tell how much.")


@dataclass(eq=False)
class Weighing:
    """What events weigh in a snapshot, part by part in the order of the log."""

    rule: decay.Forgetting | None
    newest: float = 0.0
    """The time of the newest event in the snapshot, if it forgets by time."""
    cut: float | None = None
    """Events up to this time count as if they were not there."""
    halvings: dict[int, float] = field(default_factory=dict)
    """By partition, how often the weights of its first events have halved so far."""

    def weights(self, partition: int, n: int, times: Vector | None) -> tuple[Vector | None, float]:
        """Weights (n,) of the next events when the last of them has come, None if all are 1.

        And what the weights of events of the same partition before them are multiplied by.
        """
        if isinstance(self.rule, ByEvents):
            passed = n / self.rule.half_life
            self.halvings[partition] = self.halvings.get(partition, 0.0) + passed
            return self.rule.weights(n, None), float(np.exp2(-passed))
        if isinstance(self.rule, ByTime):
            return decay.halved((self.newest - decay.required(times)) / self.rule.half_life), 1.0
        if isinstance(self.rule, LastSeconds):
            panes = np.floor(decay.required(times) / self.rule.width)
            return (panes >= self.rule.oldest(self.newest)).astype(np.float64), 1.0
        if self.cut is not None:
            return (decay.required(times) > self.cut).astype(np.float64), 1.0
        return None, 1.0

    def aged(self, model: Model, base: Snapshot) -> Vector:
        """The statistics of an older snapshot with the weights that its events have now."""
        clocks = base.payload.clocks
        if isinstance(self.rule, ByEvents):
            clocks = {i: decay.decayed(model, each, self.halvings.get(i, 0.0)) for i, each in clocks.items()}
            return decay.total(model, clocks)
        if isinstance(self.rule, ByTime):
            half_life = self.rule.half_life
            aged = (decay.decayed(model, each, (self.newest - each.newest) / half_life) for each in clocks.values())
            return decay.total(model, dict(enumerate(aged)))
        return base.payload.statistics


def weighing_of(spec: Spec, snapshot: Snapshot, cut: float | None = None) -> Weighing:
    """Of the events of a snapshot. Those of a sampled posterior count once, if they are later than `cut`."""
    if spec.sampling is not None:
        return Weighing(None, cut=cut)
    clock = snapshot.payload.clocks.get(0)
    return Weighing(rules.of(spec.inference.forget), 0.0 if clock is None else clock.newest)
