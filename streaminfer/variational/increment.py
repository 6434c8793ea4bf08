"""An increment: what was learned from one minibatch, and where that minibatch came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.variational.counts import Counts
from streaminfer.variational.forgetting.reached import Reached


class Pane(NamedTuple):
    """The events of one stretch of a window."""

    n_events: int
    statistics: NDArray[np.float64]


Panes = Mapping[int, Pane]


class ByKey(NamedTuple):
    """The events of an increment by their keys, all different: (k,) each, in one order.

    Timestamps of records are in milliseconds since 1970. `n_effective` and `newest` are those of `Change`, key by key.
    """

    labels: Sequence[bytes]
    counts: NDArray[np.float64]
    stamps: NDArray[np.float64]
    """The newest record's timestamp."""
    oldest: NDArray[np.float64]
    """The oldest record's timestamp."""
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


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an increment comes from: the events at positions [begin, end) of one data partition."""

    fingerprint: str
    """That of the spec."""
    writer: str
    """The process that made it."""
    topic: str
    partition: int
    begin: int
    end: int
    base_version: int = 0
    """The version that it was learned from."""
    epoch: int = 0
    """The pass over the data, from 0."""
    reached: Reached = ()
    """The time that the partition has reached at `end`, if times matter."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The payload of an increment: what its events add to the statistics."""

    statistics: NDArray[np.float64]
    """(size,), or with `keys` (k, size), a row for each key; those of no event if they are in `panes`."""
    n_effective: float = 0.0
    """If events are forgotten by time: the sum of their weights as of `newest`."""
    newest: float = 0.0
    """The newest event's time in seconds since 1970, if events are forgotten by time."""
    panes: Panes = field(default_factory=dict)
    """The statistics by pane, if there is a window; an event that is already outside the window is in no pane."""
    keys: ByKey | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Increment:
    """What was learned from one minibatch."""

    provenance: Provenance
    counts: Counts
    payload: Change

    @property
    def n_events(self) -> int:
        return self.counts.n_events
