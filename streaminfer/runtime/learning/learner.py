"""What a worker makes of a minibatch: dead letters, and by the spec's method an increment for every shard."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.learning.visited_batches import VisitedBatches
from streaminfer.runtime.reading import bad_events
from streaminfer.runtime.reading.passes import Passes
from streaminfer.runtime.reading.tape import Minibatch
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.tables.kinds import folding_of
from streaminfer.tables.learning import Lesson, Taken
from streaminfer.variational.forgetting import rules
from streaminfer.variational.forgetting.reached import Reached
from streaminfer.variational.increment import Increment, Provenance
from streaminfer.wire.avro import Schemas
from streaminfer.wire.events.formats import format_of


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
        """`batches` if a later visit must know what the posterior has of a batch."""
        self._spec, self._shards, self._passes, self._identity = spec, shards, passes, identity
        self._batches = batches
        self._format = format_of(spec, schemas)
        self._forgetting = rules.of(spec.inference.forget)
        self._learning = folding_of(spec).learning(spec, partial(names.shard_of, spec))

    def learn(self, batch: Minibatch, reached: Reached = ()) -> list[Learned]:
        """A minibatch's dead letters and its increment on the newest base, or one for each shard of keys.

        `reached` is the time that its partition has reached before it, if times matter.
        """
        by_position = self._forgetting is not None and self._forgetting.pane is not None
        judged = bad_events.judge(self._spec, self._format, batch.records, by_position, reached)
        taken = judged.taken
        first = self._passes.is_first(batch)
        if judged.n_readable > 1 and not self._learning.fits(taken.events):
            halves = _halves(batch)
            self._passes.check_whole(halves[0])
            return [each for half in halves for each in self.learn(half)]
        letters = judged.letters(self._spec) if first else []  # one that was sent again meanwhile must not come back
        own = None if self._batches is None or first else self._batches.statistics(batch)
        given = Taken(taken.events, taken.places, taken.stamps)
        lessons = self._learning.learn(given, self._shards.blocks, not first, own)
        if not all(np.isfinite(lesson.payload.statistics).all() for lesson in lessons):
            raise Fatal(f"{batch.partition} [{batch.begin}, {batch.end}): its statistics are not finite; this is a bug")
        made = [
            self._learning.dated(self._increment(batch, lesson, n_bad=judged.n_bad, reached=taken.reached), given)
            for lesson in lessons
        ]
        n_ahead = taken.n_ahead
        return [
            Learned(shard, [] if shard else letters, each, 0 if shard else n_ahead) for shard, each in enumerate(made)
        ]

    def lost(self, batch: Minibatch, n_lost: int) -> Increment:
        """The increment of positions without events."""
        return self._increment(batch, self._learning.nothing(), n_lost=n_lost)

    def _increment(
        self, batch: Minibatch, lesson: Lesson, n_bad: int = 0, n_lost: int = 0, reached: Reached = ()
    ) -> Increment:
        provenance = Provenance(
            fingerprint=self._spec.fingerprint,
            writer=self._identity,
            topic=batch.partition.topic,
            partition=batch.partition.index,
            begin=batch.begin,
            end=batch.end,
            base_version=lesson.base_version,
            epoch=batch.epoch,
            reached=reached,
        )
        counts = replace(lesson.counts, n_dead_lettered=n_bad, n_lost=n_lost)
        return Increment(provenance, counts, lesson.payload)
