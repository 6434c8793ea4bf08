"""Schedules of crashes, zombies and lies on topics of words: no shard ever lacks a word, or has one twice."""

from __future__ import annotations

import pytest

from streaminfer.bus.protocol import Partition
from streaminfer.runtime.master import Master
from streaminfer.runtime.shard import Shard
from streaminfer.runtime.word_shard import WordShard
from streaminfer.variational.increment import Increment
from tests.simulation.schedules import in_parts, shows_a_bug
from tests.simulation.test_keyed import FirstShardOnly
from tests.simulation.word_world import play_words
from tests.simulation.world import EVENTS, Services

SCHEDULES = 40
LONG_SCHEDULES = 2000
FOUND_WITHIN = 200


def test_schedules() -> None:
    counted = [play_words(seed).n_events for seed in range(SCHEDULES)]
    assert max(counted) == EVENTS
    assert min(counted) < EVENTS, "retention never overtook a reader: the schedules are too tame"


@pytest.mark.long
@in_parts(SCHEDULES, LONG_SCHEDULES)
def test_more_schedules(seeds: range) -> None:
    for seed in seeds:
        play_words(seed)


class _CleanTooEarly(WordShard):
    def _fold(self, increment: Increment) -> None:
        super()._fold(increment)
        row = self._arena.rows.get(increment.keys.labels[0]) if increment.keys and increment.keys.labels else None
        if row is not None:
            self._arena.dirty[row] = False


class WordNotPublished(Master):
    """Forgets that a word has changed."""

    def _open_shard(self, partition: Partition) -> Shard:
        return _CleanTooEarly(self._spec, self._bus, partition.index, self._metrics)


PLANTED = {
    "the first shard only": Services(worker=FirstShardOnly),
    "a change that is not published": Services(master=WordNotPublished),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    shows_a_bug(lambda seed: play_words(seed, PLANTED[name]), FOUND_WITHIN)
