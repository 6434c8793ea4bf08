"""Several passes over the data: the frontier is (epoch, position).

The first pass takes what is there until the data comes to rest. Then the ends are fixed, and every pass goes from the
partitions' starts to these ends. The last pass goes on beyond them, with whatever came later. A partition that is met
after the ends were fixed starts where it ends, so nothing of it is seen before the last pass.
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
    """A snapshot that knows partitions, each from its first frontier on; `kept` where the starts matter later."""
    new = {index: start for index, start in found.items() if index not in snapshot.frontier}
    if not new:
        return snapshot
    return replace(
        snapshot,
        frontier={**snapshot.frontier, **new},
        starts={**snapshot.starts, **new} if kept else snapshot.starts,
        ends={**snapshot.ends, **new} if snapshot.ends else snapshot.ends,
    )


def fixed(snapshot: Snapshot, ends: Mapping[int, int]) -> Snapshot:
    """A snapshot of the first pass with the ends of every pass; no frontier is beyond them."""
    return replace(snapshot, ends={index: max(at, ends.get(index, at)) for index, at in snapshot.frontier.items()})


def turned(snapshot: Snapshot, n_epochs: int) -> Snapshot:
    """A snapshot at the start of the next pass where this one is at its end and another is to come."""
    while (
        snapshot.ends
        and snapshot.epoch < n_epochs - 1
        and all(snapshot.frontier[index] >= end for index, end in snapshot.ends.items())
    ):
        snapshot = replace(snapshot, epoch=snapshot.epoch + 1, frontier=dict(snapshot.starts), n_unconverged=0)
    return snapshot


def is_first(epoch: int, begin: int, end: int | None) -> bool:
    """Whether positions from `begin` on were never passed before, where passes end at `end`."""
    return epoch == 0 or (end is not None and begin >= end)


def counts(snapshot: Snapshot, increment: Increment) -> bool:
    """Whether an increment has events that none before it had."""
    return is_first(increment.epoch, increment.begin, snapshot.ends.get(increment.partition))
