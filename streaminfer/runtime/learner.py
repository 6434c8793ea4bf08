"""What a worker makes of a minibatch: dead letters, and by the spec's method an increment for every shard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streaminfer.bus.protocol import Output, Unreadable
from streaminfer.models.model import Vector
from streaminfer.runtime import intake, keyed_minibatch, letters, word_minibatch
from streaminfer.runtime.passes import Passes
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.shards import Shards
from streaminfer.runtime.tape import Minibatch
from streaminfer.runtime.visited_batches import VisitedBatches
from streaminfer.spec import Spec
from streaminfer.variational import base, keyed, methods, rules, word_learning
from streaminfer.variational.increment import Increment
from streaminfer.variational.lda.start import Starts
from streaminfer.variational.reached import Reached
from streaminfer.wire.avro import Schemas
from streaminfer.wire.formats import format_of


def _halves(batch: Minibatch) -> tuple[Minibatch, Minibatch]:
    """The same records in two minibatches."""
    first, second = batch.records[: len(batch.records) // 2], batch.records[len(batch.records) // 2 :]
    middle = second[0].offset
    return batch._replace(end=middle, records=first), batch._replace(begin=middle, records=second)


class Learned(NamedTuple):
    """What a minibatch gives one shard: dead letters, which the first shard's has, and an increment.

    The first shard's also says how many events were too far ahead of their partition to count as of their own time.
    """

    shard: int
    letters: list[Output]
    increment: Increment
    n_ahead: int = 0


class Learner:
    """A worker's way from records to increments, on the newest snapshots of all shards."""

    def __init__(
        self,
        spec: Spec,
        shards: Shards,
        passes: Passes,
        identity: str,
        schemas: Schemas,
        batches: VisitedBatches | None = None,
    ) -> None:
        """`batches` where a later visit must know what the posterior has of a batch."""
        self._spec, self._shards, self._passes, self._identity = spec, shards, passes, identity
        self._batches = batches
        self._format = format_of(spec, schemas)
        self._forgetting = rules.of(spec.inference.forget)
        self._base = base.prior(spec.model) if spec.words is None else None
        self._starts = Starts(0, 0) if spec.words is None else word_learning.starts_of(spec.words)
        if spec.words is not None:
            word_learning.prepare(spec.words)  # before the group expects a sign of life

    def learn(self, batch: Minibatch, reached: Reached = ()) -> list[Learned]:
        """A minibatch's dead letters and its increment on the newest base, or one for each shard of keys.

        `reached` is what its partition has reached before it, where times matter.
        """
        records, faulty = batch.records, []
        if Unreadable in set(map(type, records)):
            faulty = [record for record in records if isinstance(record, Unreadable)]
            records = [record for record in records if not isinstance(record, Unreadable)]
        by_position = self._forgetting is not None and self._forgetting.pane is not None
        taken = intake.take(self._spec, self._format, records, by_position, reached)
        buried = [letters.letter_output(self._spec, records[bad.place], bad.reason, bad.rest) for bad in taken.bad]
        buried += [letters.letter_output(self._spec, record, record.fault) for record in faulty]
        n_bad = sum(bad.n_events for bad in taken.bad) + len(faulty)
        first = self._passes.is_first(batch)
        buried = buried if first else []  # one that was sent again meanwhile must not come back
        if self._spec.words is not None and taken.documents is not None:
            if not word_minibatch.fits(self._spec.words, taken.documents) and len(records) > 1:
                halves = _halves(batch)
                self._passes.check_whole(halves[0])
                return [each for half in halves for each in self.learn(half)]
            blocks = self._shards.blocks
            learned = word_minibatch.by_shard(
                self._spec, self._spec.words, taken.documents, blocks, self._starts, again=not first
            )
        elif taken.keys is not None:
            learned = keyed_minibatch.by_shard(self._spec, taken)
        else:
            own = None if self._batches is None or first else self._batches.statistics(batch)
            learned = [self._whole(taken, own)]
        if not all(np.isfinite(what["statistics"]).all() for what in learned):
            raise Fatal(f"{batch.partition} [{batch.begin}, {batch.end}): its statistics are not finite; this is a bug")
        made = [replace(self.increment(batch, n_bad=n_bad), **what, reached=taken.reached) for what in learned]
        if not self._spec.by_rows and self._forgetting is not None and len(taken.events):
            made = [self._forgetting.dated(self._spec.model, each, taken.events, taken.places) for each in made]
        n_ahead = taken.n_ahead
        return [
            Learned(shard, [] if shard else buried, each, 0 if shard else n_ahead) for shard, each in enumerate(made)
        ]

    def _whole(self, taken: intake.Intake, own: Vector | None) -> dict[str, Any]:
        """What an increment of all events says of them; `own` is what the posterior has of them already."""
        weights = None
        if self._forgetting is not None and len(taken.events):
            weights = self._forgetting.weights(len(taken.events), taken.places)
        spec, newest = self._spec, self._newest_base()
        step = methods.learn(spec.model, spec.inference, newest, taken.events, weights, own)
        return {"n_events": len(taken.events), "base_version": newest.version, **step._asdict()}

    def _newest_base(self) -> base.Base:
        snapshot, held = self._shards.snapshot, self._base or base.prior(self._spec.model)
        if snapshot is not None and snapshot.version != held.version:
            held = base.of(self._spec.model, self._spec.inference, snapshot)
        self._base = held
        return held

    def increment(self, batch: Minibatch, n_bad: int = 0, n_lost: int = 0) -> Increment:
        """The increment of a minibatch without events."""
        nothing = keyed.nothing(self._spec.model) if self._spec.by_rows else None
        return Increment(
            fingerprint=self._spec.fingerprint,
            writer=self._identity,
            topic=batch.partition.topic,
            partition=batch.partition.index,
            begin=batch.begin,
            end=batch.end,
            n_events=0,
            n_dead_lettered=n_bad,
            n_lost=n_lost,
            base_version=0 if self._base is None else self._base.version,
            score=0.0,
            statistics=self._spec.model.empty() if nothing is None else nothing.statistics,
            keys=None if nothing is None else nothing.keys,
            epoch=batch.epoch,
        )
