"""Bugs that the simulation must find: each is what a plausible implementation gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streaminfer.bus.protocol import Member, Partition
from streaminfer.runtime import names
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.folding.restoring import Restored
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.learning.learner import Learned
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.reading.tape import Minibatch, Tape
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from tests.made import changed
from tests.simulation.world import Services


class _WithShard(Master):
    """A master of shards of another class."""

    shard: type[Shard]

    def _open_shard(self, partition: Partition) -> Shard:
        return self.shard(self._spec, self._bus, partition.index, self._metrics)


class _NoFrontierShard(Shard):
    def _fold(self, found: Sequence[Increment]) -> None:
        for increment in found:
            begin = self.snapshot.frontier.positions.get(increment.provenance.partition, increment.provenance.begin)
            super()._fold([changed(increment, begin=begin, end=max(begin, increment.provenance.end))])


class NoFrontierCheck(_WithShard):
    """Folds whatever comes."""

    shard = _NoFrontierShard


class _NoOwner:
    def check_newest(self, position: int, error: Exception | None = None) -> None: ...

    def close(self) -> None: ...


class _RestoreFirstShard(Shard):
    def fence(self) -> Owner:
        return _NoOwner()  # type: ignore[return-value]

    def _go_on(self, found: Restored) -> None:
        super()._go_on(found)
        self._owner = super().fence()


class RestoreBeforeFencing(_WithShard):
    """Reads the newest snapshot, then shuts out the predecessor, which may have written one in between."""

    shard = _RestoreFirstShard


class _NoFrontierInSnapshotShard(Shard):
    def commit(self, member: Member, now_ms: int) -> None:
        folded = self.snapshot
        stale = {p: self.published.frontier.positions.get(p, at) for p, at in folded.frontier.positions.items()}
        self.snapshot = changed(folded, positions=stale)
        super().commit(member, now_ms)
        self.snapshot = changed(self.snapshot, positions=folded.frontier.positions)


class SnapshotWithoutItsFrontier(_WithShard):
    """Publishes statistics with the frontier of the snapshot before."""

    shard = _NoFrontierInSnapshotShard


class ResumesFromGroupOffsets(Worker):
    """Starts at the positions that its group has committed and trusts them, as an ordinary consumer does."""

    def _start(self, partition: Partition, position: int) -> None:
        kept = self._bus.committed(names.worker_group(self._spec)).get(partition)
        super()._start(partition, position if kept is None else kept.offset)

    def _align(self, tape: Tape, shards: Sequence[Snapshot]) -> None:
        tape.reached(shards[0].frontier.positions[tape.partition.index])


class LeavesAHole(Worker):
    """Makes one increment of several minibatches, and learns from all but the second."""

    def _learn(self, batch: Minibatch) -> list[Learned]:
        minibatch = self._spec.inference.minibatch
        begin = (batch.begin // minibatch + 1) * minibatch
        left = [record for record in batch.records if not begin <= record.offset < begin + minibatch]
        return super()._learn(batch._replace(records=left))


PLANTED: dict[str, Callable[[], Services]] = {
    "no frontier check": lambda: Services(master=NoFrontierCheck),
    "restore before fencing": lambda: Services(master=RestoreBeforeFencing),
    "snapshot without its frontier": lambda: Services(master=SnapshotWithoutItsFrontier),
    "worker resuming from group offsets": lambda: Services(worker=ResumesFromGroupOffsets),
    "a hole in merged minibatches": lambda: Services(worker=LeavesAHole),
}
