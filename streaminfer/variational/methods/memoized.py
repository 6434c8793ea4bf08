"""The fold `replace`: memoized variational inference.

Hughes & Sudderth 2013. The statistics of all events are the sum of those of every batch, as they were expected when it
was last visited. A visit replaces the old ones by new ones. The first pass fixes the batches: each is a minibatch of
it, known by its partition and its first position. Events that no later pass visits are one batch that grows: all of
them if there is one pass, else those after the ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

from streaminfer.models.model import DomainError, Filter, Matrix, Model, Vector
from streaminfer.models.options import OptionsError
from streaminfer.variational import epochs, tree
from streaminfer.variational.admission import proper
from streaminfer.variational.base import Base, cavity
from streaminfer.variational.forgetting.decay import Forgetting
from streaminfer.variational.increment import Increment, Pane
from streaminfer.variational.methods import svb, svi
from streaminfer.variational.methods.svb import Step
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import Inference
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.tree import Tree

MOST_BATCHES: Final = 65_536
"""Batches that are visited again, of all partitions: a master holds all of them in memory."""
MOST_BYTES: Final = 2 << 30
"""Bytes of all these batches: a model with many statistics may have fewer of them."""

OPTIONS: Final = (epochs.OPTION,)


def complete(options: dict[str, Any]) -> dict[str, Any]:
    """Batches that are met again never linger."""
    return {**options, "linger_ms": 0 if options["linger_ms"] is None else options["linger_ms"]}


def check(options: Mapping[str, Any]) -> None:
    """Raises OptionsError if the ends of batches would depend on a clock."""
    if options["linger_ms"] != 0:
        rule = "must be 0 with the method memoized, whose batches must be the same in every epoch: leave it out"
        raise OptionsError("linger_ms", rule, options["linger_ms"])


def learn(
    model: Model, _inference: Inference, base: Base, events: Matrix, weights: Vector | None, own: Vector | None
) -> Step:
    """The worker's part: a filter takes a batch into the posterior of all others.

    A batch that gives none keeps what the posterior had of it, its `own` statistics.
    """
    if not isinstance(model, Filter):
        return svi.step(model, base, events)
    if own is None or not len(events):
        return svb.step(model, base, events, weights)
    try:
        return svb.step(model, cavity(model, base, own), events, weights)
    except DomainError:
        return Step(own, svb.score(base, events), n_unconverged=len(events))


class TooManyBatches(ValueError):
    """More would have to be held than there may be."""

    def __init__(self, most: str) -> None:
        super().__init__(
            f"there are more than {most} to visit again, all that a master holds: give the spec a new name and make "
            "inference.minibatch larger, or leave inference.epochs out"
        )


def fold(
    model: Model,
    inference: Inference,
    snapshot: Snapshot,
    increment: Increment,
    _fresh_from: int,
    _forgetting: Forgetting | None,
) -> tuple[Snapshot, Outcome]:
    """A snapshot with the increment's statistics as those of its batch if that is proper, else as it was."""
    n_epochs = inference.n_epochs
    if not increment.n_events or proper(model, increment.payload.statistics):
        found = visited(model, snapshot, increment, n_epochs)
        if not increment.n_events or proper(model, found.payload.statistics):
            return found, Outcome.FOLDED
    return visited(model, snapshot, increment, n_epochs, taken=False), Outcome.REJECTED


def is_whole(snapshot: Snapshot, increment: Increment) -> bool:
    """Whether an increment that continues the frontier is of a whole batch of a snapshot, or of a new one."""
    batches = snapshot.payload.batches.get(increment.provenance.partition, Tree())
    return fits(batches.begins, snapshot, increment)


def fits(begins: Sequence[int], snapshot: Snapshot, increment: Increment) -> bool:
    """Whether an increment that continues the frontier is of a whole batch, or of a new one.

    `begins` are those of its partition's batches, ascending. What was lost in a later pass may be several whole ones.
    """
    if epochs.counts(snapshot, increment):
        return True
    came = increment.provenance
    i = tree.find(begins, came.begin)
    if i is None:
        return False
    last = snapshot.frontier.ends[came.partition]
    after = begins[i + 1] if i + 1 < len(begins) else last
    whole = came.end in {after, last} or tree.find(begins, came.end) is not None
    return whole if increment.counts.n_lost else came.end == after


def visited(model: Model, snapshot: Snapshot, increment: Increment, n_epochs: int, taken: bool = True) -> Snapshot:
    """A snapshot with an increment that fits; if it is not `taken`, its batch stays as it was.

    Events of a batch may be gone, by retention or compaction, or unreadable now. Then it keeps the statistics of its
    last visit: otherwise these events would leave the posterior, and nothing would say so.
    """
    partition, begin = increment.provenance.partition, increment.provenance.begin
    held = snapshot.payload.batches.get(partition, Tree())
    first = epochs.counts(snapshot, increment)
    some = taken and increment.n_events
    batch = Pane(increment.n_events, increment.payload.statistics) if some else Pane(0, model.empty())
    last = first and is_last(snapshot, increment, n_epochs)
    if last:
        begin = snapshot.frontier.ends.get(partition, snapshot.frontier.starts.get(partition, 0))
        i = held.find(begin)
        batch = batch if i is None else _grown(model, held.leaf(i), batch)
    elif not first and (increment.counts.n_lost or not taken or batch.n_events < _known(held, begin)):
        return snapshot
    if first and not last and snapshot.payload.n_batches >= most_batches(model):
        raise TooManyBatches(f"{most_batches(model):,} batches")
    new = tree.placed(model, held, begin, batch)
    return with_batches(model, snapshot, {**snapshot.payload.batches, partition: new})


def with_batches(model: Model, snapshot: Snapshot, batches: dict[int, Tree]) -> Snapshot:
    """A snapshot of these batches."""
    held = replace(
        snapshot.payload,
        statistics=total(model, batches),
        batches=batches,
        n_batches=sum(len(each.begins) for each in batches.values()),
    )
    n_events = sum(each.n_events for each in batches.values())
    return replace(snapshot, payload=held, counts=replace(snapshot.counts, n_events=n_events))


def total(model: Model, batches: dict[int, Tree]) -> Vector:
    """The statistics of all batches."""
    roots = [batches[index].root for index in sorted(batches)]
    return reduce(model.merge, [root.pane.statistics for root in roots if root is not None], model.empty())


def held(snapshot: Snapshot, partition: int, begin: int) -> Vector | None:
    """The statistics that a batch has in a posterior, which an earlier pass gave it; None if none did."""
    batches = snapshot.payload.batches.get(partition)
    i = None if batches is None or snapshot.frontier.epoch == 0 else batches.find(begin)
    return None if batches is None or i is None else batches.leaf(i).statistics


def most_batches(model: Model) -> int:
    """How many batches a master holds, each twice: by itself, and merged with others."""
    return min(MOST_BATCHES, MOST_BYTES // (16 * model.size))


def _known(held: Tree, begin: int) -> int:
    """How many events the batch from a position on has."""
    i = held.find(begin)
    return 0 if i is None else held.leaf(i).n_events


def is_last(snapshot: Snapshot, increment: Increment, n_epochs: int) -> bool:
    """Whether no later pass comes by."""
    end = snapshot.frontier.ends.get(increment.provenance.partition)
    return n_epochs == 1 or (end is not None and increment.provenance.begin >= end)


def _grown(model: Model, old: Pane, more: Pane) -> Pane:
    if not more.n_events:
        return old
    return Pane(old.n_events + more.n_events, model.merge(old.statistics, more.statistics))
