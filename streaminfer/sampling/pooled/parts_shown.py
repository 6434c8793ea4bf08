"""What a snapshot shows of all subposteriors: the draws, if there is one, else how far each of them is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streaminfer.sampling.draws import Counters
from streaminfer.sampling.pooled import gathering
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.showing import Showing
from streaminfer.sampling.pooled.shown import NOTHING, Fixed, Part, Shown


def together(new: Mapping[Fixed, Showing], before: Shown, gathered: Gathering) -> Showing:
    """One showing from those of the subposteriors that have something `new`.

    The draws of several subposteriors are of different targets, so they are not pooled: moments and draws are empty.
    """
    if gathered.n_subposteriors == 1:
        return next(iter(new.values()))
    old = {part.subposterior: part for part in before.subposteriors}
    parts = {**old, **{fixed.subposterior: showing.shown.subposteriors[0] for fixed, showing in new.items()}}
    fixed = {each.subposterior: each.number for each in before.segments}
    complete = len(fixed) == gathered.n_subposteriors and all(gathered.is_complete(*each) for each in fixed.items())
    shown = Shown(
        segment=NOTHING,
        complete=complete,
        counters=_counted(parts, gathered),
        subposteriors=tuple(parts[j] for j in sorted(parts)),
    )
    any_of = next(iter(new.values()))
    return Showing(
        np.zeros_like(any_of.statistics),
        any_of.draws[:0],
        shown,
        n_events=sum(part.n_events for part in parts.values()),
        n_dead_lettered=sum(_n_dead_lettered(part, gathered) for part in parts.values()),
        score=0.0,
    )


def _counted(parts: Mapping[int, Part], gathered: Gathering) -> Counters:
    """The work of all chains in the segments that are shown."""
    totals = [gathering.total(gathered.windows(part.subposterior, part.segment)) for part in parts.values()]
    return Counters(*(sum(each) for each in zip(*totals, strict=True)))


def _n_dead_lettered(part: Part, gathered: Gathering) -> int:
    newest = [window.newest for window in gathered.windows(part.subposterior, part.segment).values()]
    return max((draws.n_dead_lettered for draws in newest if draws is not None), default=0)
