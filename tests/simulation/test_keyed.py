"""Schedules of crashes, zombies and lies on keyed posteriors: their one to three shards always come together again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streaminfer.bus.protocol import Partition
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.reading.tape import Tape
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.keyed_world import play_keyed
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.world import EVENTS, Services

SCHEDULES = 75
LONG_SCHEDULES = 6000
FOUND_WITHIN = 400
"""The rarest planted bug shows in 1 of 30 schedules: missing it by chance in this many has P < 1e-5."""


@schedules(SCHEDULES, LONG_SCHEDULES)
def test_schedules(seeds: range) -> None:
    counted = [play_keyed(seed).n_events for seed in seeds]
    assert max(counted) == EVENTS
    assert min(counted) < EVENTS, "retention never overtook a reader: the schedules are too tame"


class FirstShardOnly(Worker):
    """Starts and goes back only if the first shard needs it."""

    def _align(self, tape: Tape, shards: Sequence[Snapshot]) -> None:
        super()._align(tape, shards[:1])

    def _start(self, partition: Partition, position: int) -> None:
        super()._start(partition, self._shards.snapshots[0].frontier.positions[partition.index])


class _ForgetsItsKeys(Shard):
    def restored(self) -> bool:
        waited = self._restoring is not None
        done = super().restored()
        if waited and done:
            rows = self.table.rows
            for key in list(rows.rows)[:1]:
                rows.drop(key)
            rows.published()
        return done


class KeyLost(Master):
    """Restores all keys but one."""

    def _open_shard(self, partition: Partition) -> Shard:
        return _ForgetsItsKeys(self._spec, self._bus, partition.index, self._metrics)


class _CleanTooEarly(Shard):
    def _fold(self, found: Sequence[Increment]) -> None:
        super()._fold(found)
        for keys in (increment.payload.keys for increment in found):
            row = self.table.rows.rows.get(keys.labels[0]) if keys and keys.labels else None
            if row is not None:
                self.table.rows.dirty[row] = False


class RowNotPublished(Master):
    """Forgets that the row of a key, or of a word, has changed."""

    def _open_shard(self, partition: Partition) -> Shard:
        return _CleanTooEarly(self._spec, self._bus, partition.index, self._metrics)


PLANTED = {
    "the first shard only": Services(worker=FirstShardOnly),
    "a key lost in a restore": Services(master=KeyLost),
    "a change that is not published": Services(master=RowNotPublished),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_is_found(name: str) -> None:
    shows_a_bug(lambda seed: play_keyed(seed, PLANTED[name]), FOUND_WITHIN)
