"""Bugs of chains that the simulation must find: each is what a plausible implementation gets wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from streaminfer.bus.protocol import Member, Output
from streaminfer.runtime import names
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.pooling.master import PoolingMaster
from streaminfer.runtime.pooling.shard import SampledShard
from streaminfer.runtime.sampling.sampler import Sampler
from streaminfer.runtime.sampling.unit import OwnedUnit
from streaminfer.sampling import segments
from streaminfer.sampling.segments import Segment
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.sampler_world import Samplers

_numbers = itertools.count(1)


class _WithUnit(Sampler):
    """A sampler of units of another class."""

    unit: type[OwnedUnit]

    def _open_unit(self, number: int) -> OwnedUnit:
        return self.unit(self._spec, self._settings, self._target, self._bus, number, self._schemas)


class _TwoCommits(Owner):
    def commit(self, outputs: Sequence[Output], positions: Any, member: Member | None) -> None:
        state = self._state[0].topic
        super().commit([each for each in outputs if each.topic != state], {}, member)
        super().commit([each for each in outputs if each.topic == state], positions, member)


class _TwoCommitsUnit(OwnedUnit):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owner.__class__ = _TwoCommits


class StateAfterDraws(_WithUnit):
    """Commits draws, then the state that goes on after them."""

    unit = _TwoCommitsUnit


class RandomnessOfTheProcess(Sampler):
    """Every process has a seed of its own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._settings = replace(self._settings, seed=next(_numbers) + 1000)


class BeforeTheManifest(Sampler):
    """When all its chains are done, it takes what the data topic has now as their next segment."""

    _ahead: Segment | None = None

    def _segment_for(self, unit: OwnedUnit, newest: Snapshot) -> Segment | None:
        fixed = super()._segment_for(unit, newest)
        if fixed is None or any(each.wants(fixed) for each in self._units.values()):
            return fixed
        if self._ahead is None or self._ahead.number <= fixed.number:
            topic = names.data_topic(self._spec)
            spans = segments.spans_of(self._bus.starts(topic), self._bus.ends(topic), (0, 1))
            self._ahead = Segment(fixed.number + 1, spans) if Segment(0, spans).size > fixed.size else None
        return self._ahead or fixed


class _UnfencedUnit(OwnedUnit):
    def _fence(self) -> Owner:
        return Owner(self._bus, f"nobody-{next(_numbers)}", [self._state_at, self._draws_at])


class NoFence(_WithUnit):
    """Opens a writer with a name of its own: the owner before it can still write."""

    unit = _UnfencedUnit


class _NoOwner:
    def check_newest(self, position: int, error: Exception | None = None) -> None: ...

    def close(self) -> None: ...


class _RestoreFirstUnit(OwnedUnit):
    def _fence(self) -> Owner:
        return _NoOwner()  # type: ignore[return-value]

    def restored(self) -> bool:
        if self._reader is not None:
            super().restored()
            return False
        if isinstance(self._owner, _NoOwner):
            self._owner = super()._fence()
        return True


class RestoreBeforeFencing(_WithUnit):
    """Reads the newest state, then shuts out the predecessor, who may have written one in between."""

    unit = _RestoreFirstUnit


class _WrongBlockUnit(OwnedUnit):
    def restored(self) -> bool:
        fresh = self._reader is not None
        there = super().restored()
        if there and fresh and self.state.block:
            self.state = replace(self.state, block=self.state.block - 1)
        return there


class WrongBlock(_WithUnit):
    """Goes on with the random numbers of the block that it was in."""

    unit = _WrongBlockUnit


class _BelievingUnit(OwnedUnit):
    def verify(self) -> None: ...


class NoLookForTheLastCommit(_WithUnit):
    """Believes every commit that is confirmed."""

    unit = _BelievingUnit


class _FixesFirstShard(SampledShard):
    def look(self, now_ms: int) -> bool:
        fixed = self._ends.look() and self._fix(now_ms)
        return self._show() or fixed


class FixesBeforeItShows(PoolingMaster):
    """Goes on to the next segment, and then looks what there is to show of it."""

    def _open_shard(self) -> SampledShard:
        return _FixesFirstShard(self._spec, self._settings, self._bus, self._clock, self._metrics, self._schemas)


class _UnfencedShard(SampledShard):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owner = Owner(self._bus, f"nobody-{next(_numbers)}", [self.partition])


class MasterWithoutFence(PoolingMaster):
    """The master before it can still write."""

    def _open_shard(self) -> SampledShard:
        return _UnfencedShard(self._spec, self._settings, self._bus, self._clock, self._metrics, self._schemas)


PLANTED: dict[str, Callable[[], Samplers]] = {
    "state and draws in two commits": lambda: Samplers(sampler=StateAfterDraws),
    "randomness of the process": lambda: Samplers(sampler=RandomnessOfTheProcess),
    "segment before its manifest": lambda: Samplers(sampler=BeforeTheManifest),
    "no fence": lambda: Samplers(sampler=NoFence),
    "restore before fencing": lambda: Samplers(sampler=RestoreBeforeFencing),
    "wrong block number": lambda: Samplers(sampler=WrongBlock),
    "no look for the last commit": lambda: Samplers(sampler=NoLookForTheLastCommit),
    "next segment before the last is shown": lambda: Samplers(master=FixesBeforeItShows),
    "master without fence": lambda: Samplers(master=MasterWithoutFence),
}
