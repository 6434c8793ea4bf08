"""Schedules of crashes, zombies and lies on a posterior that forgets: every snapshot has the weights of its events."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from streaminfer.bus.protocol import Partition
from streaminfer.runtime.master import Master
from streaminfer.runtime.shard import Shard
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.world import EVENTS, Services, Wrong, play

HALF_LIVES = [{"half_life_events": 6.0}, {"half_life_seconds": 9.0}]
WINDOWS = [{"window_events": 7}, {"window_events": 100}, {"window_seconds": 9.0}]
"""Of seven positions, each in a pane of its own; of panes of two positions that are never full; of time."""
KINDS = [*HALF_LIVES, *WINDOWS]
SCHEDULES = 250
LONG_SCHEDULES = 5000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("forget", KINDS, ids=str)
def test_schedules(forget: dict[str, float]) -> None:
    for seed in range(SCHEDULES):
        assert play(seed, forget=forget).n_events == EVENTS


@pytest.mark.long
@pytest.mark.parametrize("forget", KINDS, ids=str)
def test_more_schedules(forget: dict[str, float]) -> None:
    for seed in range(SCHEDULES, LONG_SCHEDULES):
        assert play(seed, forget=forget).n_events == EVENTS


class _ClocksLost(Shard):
    """Restores the posterior and not what it must age."""

    def restore(self) -> Snapshot:
        return replace(super().restore(), clocks={})


class ClocksLost(Master):
    def _open_shard(self, partition: Partition) -> Shard:
        return _ClocksLost(self._spec, self._bus, partition.index, self._metrics)


@pytest.mark.parametrize("forget", HALF_LIVES, ids=str)
def test_a_master_that_loses_its_clocks_is_found(forget: dict[str, float]) -> None:
    def play_many() -> None:
        for seed in range(SCHEDULES):
            play(seed, lambda: Services(master=ClocksLost), forget)

    with pytest.raises(Wrong, match="weighted otherwise"):
        play_many()
