"""Schedules of crashes, zombies and lies on a posterior that forgets: every snapshot has the weights of its events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaminfer.bus.protocol import Member, Partition
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.folding.restoring import Restored
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.service import Fatal
from tests.made import changed
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.subscribers import Wrong
from tests.simulation.world import EVENTS, Services, play

HALF_LIVES = [{"half_life_events": 6.0}, {"half_life_seconds": 9.0}]
WINDOWS = [{"window_events": 7}, {"window_events": 100}, {"window_seconds": 9.0}]
"""Seven positions, each in a pane of its own; panes of two positions that are never full; and time."""
KINDS = [*HALF_LIVES, *WINDOWS]
SCHEDULES = 50
LONG_SCHEDULES = 5000
FOUND_WITHIN = 250


@schedules(SCHEDULES, LONG_SCHEDULES)
@pytest.mark.parametrize("forget", KINDS, ids=str)
def test_schedules(forget: dict[str, float], seeds: range) -> None:
    for seed in seeds:
        assert play(seed, forget=forget).n_events == EVENTS


class _ClocksLost(Shard):
    """Restores the posterior and not what it must age."""

    def _go_on(self, found: Restored) -> None:
        lost = changed(found.published, clocks={})
        super()._go_on(found._replace(published=lost, snapshot=lost))


class ClocksLost(Master):
    def _open_shard(self, partition: Partition) -> Shard:
        return _ClocksLost(self._spec, self._bus, partition.index, self._metrics)


@pytest.mark.parametrize("forget", HALF_LIVES, ids=str)
def test_a_master_that_loses_its_clocks_is_found(forget: dict[str, float]) -> None:
    shows_a_bug(
        lambda seed: play(seed, lambda: Services(master=ClocksLost), forget), FOUND_WITHIN, "weighted otherwise"
    )


class _PanesApart(Shard):
    """Writes the snapshot, and in another transaction the panes that belong to it."""

    def commit(self, member: Member, now_ms: int) -> None:
        assert self._store is not None
        apart = self._store.changes(self.published, replace(self.snapshot, version=self.published.version + 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._store, "changes", lambda *_: [])
            super().commit(member, now_ms)
        if apart:
            self._owner._writer.commit(apart)


class PanesApart(Master):
    def _open_shard(self, partition: Partition) -> Shard:
        return _PanesApart(self._spec, self._bus, partition.index, self._metrics)


class _DeadPanesKept(Shard):
    """Never says that a pane has died."""

    def commit(self, member: Member, now_ms: int) -> None:
        assert self._store is not None
        written = self._store._written
        self._store._written = lambda kept, version: [] if kept.item is None else written(kept, version)  # type: ignore[method-assign]
        super().commit(member, now_ms)


class DeadPanesKept(Master):
    def _open_shard(self, partition: Partition) -> Shard:
        return _DeadPanesKept(self._spec, self._bus, partition.index, self._metrics)


@pytest.mark.parametrize("planted", [PanesApart, DeadPanesKept])
@pytest.mark.parametrize("forget", WINDOWS[::2], ids=str)
def test_a_master_whose_panes_are_not_its_snapshots_is_found(forget: dict[str, float], planted: type[Master]) -> None:
    """The next master goes back to a snapshot that is whole, or finds none."""
    shows_a_bug(
        lambda seed: play(seed, lambda: Services(master=planted), forget),
        FOUND_WITHIN,
        "frontier shrank|the panes (on it )?are not those of",
        (Wrong, Fatal),
    )
