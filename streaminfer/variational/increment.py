"""An increment: what was learned from one minibatch, and where that minibatch came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pane(NamedTuple):
    """The events of one stretch of a window."""

    n_events: int
    statistics: NDArray[np.float64]


Panes = Mapping[int, Pane]


class ByKey(NamedTuple):
    """The events of an increment by their keys, all different: (k,) each, in one order.

    `stamps` are the newest records' timestamps in milliseconds since 1970, `oldest` the oldest records'; `n_effective`
    and `newest` are as in `Increment`, where events are forgotten by time.
    """

    labels: Sequence[bytes]
    counts: NDArray[np.float64]
    stamps: NDArray[np.float64]
    oldest: NDArray[np.float64]
    n_effective: NDArray[np.float64]
    newest: NDArray[np.float64]


class Layout(NamedTuple):
    """How the statistics of increments are laid out: `size` numbers, by time, in panes, or in rows by labels."""

    size: int
    timed: bool = False
    windowed: bool = False
    labels: Literal["none", "keys", "words"] = "none"
    known: frozenset[bytes] | None = None
    """The labels that there may be; None: any."""

    @property
    def labelled(self) -> bool:
        """Whether there is a row of statistics for each of many labels."""
        return self.labels != "none"


@dataclass(frozen=True, slots=True, eq=False)
class Increment:
    """Statistics of the events at positions [begin, end) of one data partition, with their provenance.

    `n_unconverged` of the events were learned by an algorithm that had not converged.

    Where events are forgotten by time, `newest` is the newest event's time in seconds since 1970 and `n_effective` the
    sum of the weights, which are as of that time. Where there is a window, `panes` have the statistics, and
    `statistics` are those of no event; events that are too old when the newest has come are in no pane.
    With `keys` the statistics are (k, size), a row for each key. Where times matter, `reached` is what the partition's
    events say of them up to `end`.
    """

    fingerprint: str
    writer: str
    topic: str
    partition: int
    begin: int
    end: int
    n_events: int
    n_dead_lettered: int
    n_lost: int
    base_version: int
    score: float
    statistics: NDArray[np.float64]
    epoch: int = 0
    n_unconverged: int = 0
    n_effective: float = 0.0
    newest: float = 0.0
    panes: Panes = field(default_factory=dict)
    keys: ByKey | None = None
    reached: tuple[float, ...] = ()
