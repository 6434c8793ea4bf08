"""Several passes over the data: the frontier is (epoch, position).

The first pass takes the data that arrives until no more comes. Then the ends are fixed, and every pass goes from the
partitions' starts to these ends. The last pass goes on beyond them, with all that came later. A partition that is met
after the ends were fixed has its end at its start, so none of its events are seen before the last pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from streaminfer.models.options import Integer, Option
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot

OPTION: Final = Option(
    "epochs",
    Integer(1, 10_000),
    "Passes over the data that exists when no more arrives; later data is seen once. Not set means 1.",
    None,
)


def met(snapshot: Snapshot, found: Mapping[int, int], kept: bool) -> Snapshot:
    """A snapshot that knows partitions, each from its first frontier on; `kept` if the starts matter later."""
    known = snapshot.frontier
    new = {index: start for index, start in found.items() if index not in known.positions}
    if not new:
        return snapshot
    frontier = replace(
        known,
        positions={**known.positions, **new},
        starts={**known.starts, **new} if kept else known.starts,
        ends={**known.ends, **new} if known.ends else known.ends,
    )
    return replace(snapshot, frontier=frontier)


def fixed(snapshot: Snapshot, ends: Mapping[int, int]) -> Snapshot:
    """A snapshot of the first pass with the ends of every pass; no frontier is beyond them."""
    frontier = snapshot.frontier
    found = {index: max(at, ends.get(index, at)) for index, at in frontier.positions.items()}
    return replace(snapshot, frontier=replace(frontier, ends=found))


def turned(snapshot: Snapshot, n_epochs: int) -> Snapshot:
    """A snapshot at the start of the next pass if this one is at its end and another is to come."""
    frontier = snapshot.frontier
    while (
        frontier.ends
        and frontier.epoch < n_epochs - 1
        and all(frontier.positions[index] >= end for index, end in frontier.ends.items())
    ):
        frontier = replace(frontier, epoch=frontier.epoch + 1, positions=dict(frontier.starts))
    if frontier is snapshot.frontier:
        return snapshot
    return replace(snapshot, frontier=frontier, counts=replace(snapshot.counts, n_unconverged=0))


def is_first(epoch: int, begin: int, end: int | None) -> bool:
    """Whether positions from `begin` on were never passed before, if passes end at `end`."""
    return epoch == 0 or (end is not None and begin >= end)


def counts(snapshot: Snapshot, increment: Increment) -> bool:
    """Whether an increment has events that none before it had."""
    came = increment.provenance
    return is_first(came.epoch, came.begin, snapshot.frontier.ends.get(came.partition))
