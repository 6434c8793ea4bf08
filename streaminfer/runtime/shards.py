"""All shards of a posterior followed together."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.follower import Follower
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot, together
from streaminfer.wire.avro import DECLARED, Schemas


class Shards:
    """The newest snapshot of every shard; of a keyed posterior its manifest alone."""

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas = DECLARED) -> None:
        self._followers = [Follower(spec, bus, shard, schemas) for shard in range(spec.shards)]

    @property
    def snapshots(self) -> list[Snapshot]:
        """One for each shard that has one; in their order, once all have."""
        return [each.snapshot for each in self._followers if each.snapshot is not None]

    @property
    def snapshot(self) -> Snapshot | None:
        """All shards as one; None until every one of them has a snapshot."""
        found = self.snapshots
        return together(found) if len(found) == len(self._followers) else None

    def poll(self, timeout: float) -> None:
        """Takes in what has come; waits for the first shard alone."""
        for i, follower in enumerate(self._followers):
            follower.poll(timeout if i == 0 else 0.0)

    def catch_up(self) -> Snapshot | None:
        """Reads to the ends as they are now."""
        for follower in self._followers:
            follower.catch_up()
        return self.snapshot

    def close(self) -> None:
        for follower in self._followers:
            follower.close()
