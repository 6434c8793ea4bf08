"""Panes of a window: statistics that are kept apart, so that what is too old can be left out of their sum.

Nothing is ever subtracted: that would leave the rounding of what is gone, and a variance below zero. The sum costs
a few merges for each change however many panes there are (two stacks: Tangwongsan, Hirzel, Schneider 2015, section 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import NamedTuple

from streaminfer.models.model import Model, Vector
from streaminfer.variational.increment import Pane, Panes


class Window(NamedTuple):
    """Live panes by their index, and their sum in two parts.

    `sums[i]` is that of the panes from i on as they were when the sums were last made, but for the last of them.
    `recent` is that last one and all that came since, which belongs to the panes `since`.
    """

    panes: Panes
    sums: Mapping[int, Vector]
    recent: Vector
    since: frozenset[int]

    @property
    def n_events(self) -> int:
        return sum(pane.n_events for pane in self.panes.values())


def of(model: Model, panes: Panes) -> Window:
    """A window of panes, summed from the newest to the oldest."""
    *older, last = sorted(panes) or [0]
    sums: dict[int, Vector] = {}
    total = model.empty()
    for index in reversed(older):
        total = sums[index] = model.merge(panes[index].statistics, total)
    recent = panes[last].statistics if panes else model.empty()
    return Window(panes, sums, recent, frozenset({last} if panes else ()))


def moved(model: Model, window: Window, changes: Panes, oldest: int) -> Window:
    """The window with what panes gained, and without all of its panes before `oldest`."""
    gained = {index: pane for index, pane in changes.items() if index >= oldest}
    panes = {index: pane for index, pane in window.panes.items() if index >= oldest}
    for index, gain in gained.items():
        panes[index] = _both(model, panes[index], gain) if index in panes else gain
    if any(index < oldest for index in window.since):
        return of(model, panes)
    recent = reduce(model.merge, [gain.statistics for gain in gained.values()], window.recent)
    sums = {index: each for index, each in window.sums.items() if index >= oldest}
    return Window(panes, sums, recent, window.since.union(gained))


def total(model: Model, window: Window) -> Vector:
    """The statistics of all live panes."""
    return model.merge(window.sums[min(window.sums)], window.recent) if window.sums else window.recent


def _both(model: Model, a: Pane, b: Pane) -> Pane:
    return Pane(a.n_events + b.n_events, model.merge(a.statistics, b.statistics))
