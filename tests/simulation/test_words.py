"""Schedules of crashes, zombies and lies on topics of words: no shard ever lacks a word, or has one twice."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.bus.protocol import Member, Partition
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.service import Fatal
from streaminfer.tables.words import KeptWordBatches
from streaminfer.variational.lda.batches import Batch
from tests.simulation.epochs_world import play
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.subscribers import Wrong
from tests.simulation.test_keyed import FirstShardOnly, RowNotPublished
from tests.simulation.word_world import WordEpochsWorld, play_words
from tests.simulation.world import EVENTS, Services

SCHEDULES = 25
LONG_SCHEDULES = 2000
FOUND_WITHIN = 200


@schedules(SCHEDULES, LONG_SCHEDULES)
def test_schedules(seeds: range) -> None:
    counted = [play_words(seed).n_events for seed in seeds]
    assert max(counted) == EVENTS
    assert min(counted) < EVENTS, "retention never overtook a reader: the schedules are too tame"


METHODS = ["svi", "memoized"]


@schedules(SCHEDULES, LONG_SCHEDULES)
@pytest.mark.parametrize("method", METHODS)
def test_schedules_of_several_passes(method: str, seeds: range) -> None:
    found = [play(seed, method, world_of=WordEpochsWorld) for seed in seeds]
    assert max(each.n_events for each in found) == EVENTS
    assert any(each.counts.n_lost for each in found), "retention never overtook a reader: the schedules are too tame"


def test_a_visit_that_leaves_the_old_statistics_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "aligned", lambda self, _: np.zeros_like(self.statistics))
    shows_a_bug(lambda seed: play(seed, "memoized", world_of=WordEpochsWorld), FOUND_WITHIN, "counted twice")


class _BatchNotWritten(Shard):
    def commit(self, member: Member, now_ms: int) -> None:
        keeping = self.table.keeping
        if isinstance(keeping, KeptWordBatches) and keeping.batches.changed:
            keeping.batches.changed.pop()
        super().commit(member, now_ms)


class BatchNotPublished(Master):
    """Forgets that a batch has changed."""

    def _open_shard(self, partition: Partition) -> Shard:
        return _BatchNotWritten(self._spec, self._bus, partition.index, self._metrics)


def test_a_batch_that_is_not_written_is_found() -> None:
    """By the master that is restored: it goes back to a snapshot that is whole, or finds none."""
    shows_a_bug(
        lambda seed: play(seed, "memoized", Services(master=BatchNotPublished), WordEpochsWorld),
        FOUND_WITHIN,
        "frontier shrank|events became|pass .* then|the batches on it are not those of the posterior's version",
        (Wrong, Fatal),
    )


PLANTED = {
    "the first shard only": Services(worker=FirstShardOnly),
    "a change that is not published": Services(master=RowNotPublished),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    shows_a_bug(lambda seed: play_words(seed, PLANTED[name]), FOUND_WITHIN)
