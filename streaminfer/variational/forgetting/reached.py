"""What time a partition has reached, and which events are too far ahead of it to be believed.

One event of next month would make all others weightless, empty every window and expire every key. So an event alone
moves the time of its partition by an hour at most, or by twice the longest silence that the partition has had. What is
further ahead counts, but as of the time that its partition has reached; only the next event can confirm it. If that is
too far ahead as well, the partition has reached the earlier of the two, and was silent until then. So after a first
silence of a day one event counts as of the day before. If days without events are usual, all count as of their own
time.

All of this is decided event by event in the order of the log, without a clock and whatever the minibatches are. What
must be known to go on is in every increment and snapshot, so a replay decides the same.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.models.times import AHEAD_S, LATEST

Reached = tuple[float, ...]
"""For each series of times (see `Believed`) three numbers, in seconds: the time reached, since 1970; the last event's
time if it was too far ahead, else the time reached again; and the longest silence. Before the first event it is the
time at which the partition was met, or nothing.
"""
SILENCES: Final = 2.0
"""Times the longest silence so far is not too far ahead."""
EACH: Final = 3
"""Numbers of a series."""
SIZES: Final = (0, 1, EACH, 2 * EACH)
"""How many numbers that may be."""


class Believed(NamedTuple):
    """A series of times as they count: those of events, or of their records; and how many were too far ahead."""

    times: Vector
    reached: float
    ahead: float
    silence: float
    n_ahead: int

    @property
    def state(self) -> Reached:
        """What must be known to go on."""
        return self.reached, self.ahead, self.silence


def believe(times: Vector, before: Reached, series: int = 0) -> Believed:
    """Times (n,), n >= 1, of a partition's next events as they count, if it has reached `before`.

    A first event cannot be compared with others. It is too far ahead only if its time has not come yet.
    """
    if len(before) < EACH * (series + 1):
        reached = min(float(times[0]), before[0] if before else math.inf)
        ahead, silence = reached, 0.0
    else:
        reached, ahead, silence = before[EACH * series : EACH * (series + 1)]
    room = max(AHEAD_S, SILENCES * silence)
    highest = np.maximum.accumulate(np.concatenate([[reached], times]))
    if not (times > highest[:-1] + room).any():
        return Believed(times, float(highest[-1]), float(highest[-1]), silence, 0)
    believed, n_ahead = [], 0
    for time in times.tolist():
        if time > reached + room and ahead > reached:
            before_silence, reached = reached, min(ahead, time)
            silence, ahead = min(max(silence, reached - before_silence), LATEST), reached
            room = max(AHEAD_S, SILENCES * silence)
        if time > reached + room:
            ahead = time
            n_ahead += 1
            believed.append(reached)
        else:
            reached = ahead = max(reached, time)
            believed.append(time)
    return Believed(np.array(believed), reached, ahead, silence, n_ahead)
