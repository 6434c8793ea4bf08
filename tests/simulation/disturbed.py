"""Schedules in which another program writes to the posterior topic: junk, and records of old snapshots again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streaminfer.bus.protocol import Output, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.folding.restoring import Restored
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.service import Fatal
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.snapshots import MANIFEST
from tests.simulation.subscribers import Subscriber, Wrong
from tests.simulation.world import Services, World

LONGEST_JUNK = 20


@dataclass
class Disturbed(World):
    """Compaction of the posterior is left out: it would keep what was appended again in the place of the newest."""

    def turn(self) -> None:
        if self.rng.random() < 0.1:
            self.disturb()
        super().turn()

    def compact(self) -> None: ...

    def disturb(self) -> None:
        topic = names.topic(self.spec, "posterior")
        there: list[Record] = list(self.broker.log(Partition(topic, 0)).records)
        if not any(len(record.value or b"") > LONGEST_JUNK for record in there):
            return  # with junk alone there is nothing that could be restored
        if self.rng.random() < 0.6:
            old = self.rng.choice(there)
            output = Output(topic, old.value, old.key, 0, old.headers)
        else:
            key = self.rng.choice([MANIFEST, b"chunk-0", b"anything"])
            output = Output(topic, self.rng.choice([b"junk", b"\0\0\0\0\x09junk"]), key, 0)
        self.broker.append([output], commit=True)
        if self.forget is not None and self.rng.random() < 0.5:
            self.disturb_panes()

    def disturb_panes(self) -> None:
        """Junk in the place of a pane that exists, or anywhere."""
        topic = names.topic(self.spec, "statistics")
        there = [record.key for record in self.broker.log(Partition(topic, 0)).records]
        self.broker.append([Output(topic, b"junk", self.rng.choice([*there, b"anything"]), 0)], commit=True)


class TrustingFollower(Follower):
    """A reader that shows the manifest that was appended last."""

    def _add(self, record: Record) -> Snapshot | None:
        self._assembler.newest = 0
        return super()._add(record)


class TrustingSubscriber(Subscriber):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._follower = TrustingFollower(world.spec, world.bus)


class Trusting(Disturbed):
    """The planted bug: versions may fall."""

    def make_subscriber(self) -> Subscriber:
        return TrustingSubscriber(self)


class _LockedOut(Shard):
    def _go_on(self, found: Restored) -> None:
        if found.in_the_way:
            raise Fatal(f"{found.in_the_way[-1]}")
        super()._go_on(found)


class LockedOut(Master):
    """The planted bug: what cannot be read stops a master."""

    def _open_shard(self, partition: Partition) -> Shard:
        return _LockedOut(self._spec, self._bus, partition.index, self._metrics)


class _FromThePrior(Shard):
    def _go_on(self, found: Restored) -> None:
        super()._go_on(found)
        if found.in_the_way:
            self.published = replace(self.table.start(), version=found.published.version)
            self.snapshot = replace(self.published)


class FromThePrior(Master):
    """The planted bug: junk is taken for the end of a posterior, which begins anew."""

    def _open_shard(self, partition: Partition) -> Shard:
        return _FromThePrior(self._spec, self._bus, partition.index, self._metrics)


def play(
    seed: int,
    kind: type[Disturbed] = Disturbed,
    services: Services | None = None,
    forget: dict[str, float] | None = None,
) -> Snapshot:
    """One schedule from its seed; raises Wrong with the seed in its text."""
    try:
        return kind(seed, services or Services(), forget).run()
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from None
