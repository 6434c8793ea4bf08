"""What time a partition has reached, and which events are too far ahead of it to be believed.

One event of next month would make all others weightless, empty every window and expire every key. So an event alone
moves the time of its partition by an hour at most. What is further ahead counts, but as of the time that its partition
has reached; only the next event can confirm it. If that is too far ahead as well, the partition has reached the earlier
of the two. So one wrong time changes no other event's weight by more than an hour, and after a silence of a day only
the first event counts as of the day before.

All of this is decided event by event in the order of the log: it depends neither on a clock nor on minibatches. What
must be known to go on is in every increment and snapshot, so a replay decides the same.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.models.times import AHEAD_S

Reached = tuple[float, ...]
"""Seconds since 1970: for each series of times (see `Believed`) what was reached and the last event's time if that was
too far ahead, else what was reached again. Before the first event the time at which the partition was met; or nothing.
"""
SIZES: Final = (0, 1, 2, 4)
"""How many numbers that may be."""


class Believed(NamedTuple):
    """A series of times as they count: those of events, or of their records; and how many were too far ahead."""

    times: Vector
    reached: float
    ahead: float
    n_ahead: int


def believe(times: Vector, before: Reached, series: int = 0) -> Believed:
    """Times (n,), n >= 1, of a partition's next events, where it has reached what the events before say.

    Nobody can say of a first event whether it is too far ahead of others, only that its time has not come yet.
    """
    if len(before) < 2:
        reached = min(float(times[0]), before[0] if before else math.inf)
        ahead = reached
    else:
        reached, ahead = before[2 * series : 2 * series + 2]
    highest = np.maximum.accumulate(np.concatenate([[reached], times]))
    if not (times > highest[:-1] + AHEAD_S).any():
        return Believed(times, float(highest[-1]), float(highest[-1]), 0)
    believed, n_ahead = [], 0
    for time in times.tolist():
        if time > reached + AHEAD_S and ahead > reached:
            reached = ahead = min(ahead, time)
        if time > reached + AHEAD_S:
            ahead = time
            n_ahead += 1
            believed.append(reached)
        else:
            reached = ahead = max(reached, time)
            believed.append(time)
    return Believed(np.array(believed), reached, ahead, n_ahead)
