"""All shards of a posterior followed together."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.follower import Follower
from streaminfer.runtime.manifests import whole
from streaminfer.runtime.word_rows import WordRows
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.words import Block
from streaminfer.wire.avro import DECLARED, Schemas


class Shards:
    """The newest snapshot of every shard; of keys and words its manifest alone, or with all `rows` of words."""

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas = DECLARED, rows: bool = False) -> None:
        self._spec = spec
        made = WordRows if rows else Follower
        self._followers = [made(spec, bus, shard, schemas) for shard in range(spec.shards)]

    @property
    def snapshots(self) -> list[Snapshot]:
        """One for each shard that has one; in their order, once all have."""
        return [each.snapshot for each in self._followers if each.snapshot is not None]

    @property
    def snapshot(self) -> Snapshot | None:
        """All shards as one; None until every one of them has a snapshot."""
        found = self.snapshots
        return whole(self._spec, found) if len(found) == len(self._followers) else None

    @property
    def blocks(self) -> list[Block]:
        """The rows of every shard, once all are there."""
        found = [each.block for each in self._followers if isinstance(each, WordRows)]
        whole = [block for block in found if block is not None]
        return whole if len(whole) == len(self._followers) else []

    def poll(self, timeout: float) -> bool:
        """Takes in what has come, and whether anything has; waits for the first shard alone."""
        come = [follower.poll(timeout if i == 0 else 0.0) for i, follower in enumerate(self._followers)]
        return any(come)

    def catch_up(self) -> Snapshot | None:
        """Reads to the ends as they are now."""
        for follower in self._followers:
            follower.catch_up()
        return self.snapshot

    def close(self) -> None:
        for follower in self._followers:
            follower.close()
