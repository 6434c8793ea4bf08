"""All shards of a posterior followed together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.manifests import whole
from streaminfer.runtime.following.rows import AllRows, NoRows, Rows
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.arena import Arena
from streaminfer.variational.lda.words import ShardRows
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED, Schemas

NO_ROWS: Final = Arena(0)


def rows_of(spec: Spec, schemas: Schemas = DECLARED) -> list[Rows]:
    """What it takes to know the posterior, for each shard: all rows if only together they are one, else none."""
    made = AllRows if kind_of(spec).together else NoRows
    return [made(spec, schemas) for _ in range(spec.shards)]


class Shards:
    """The newest snapshot of every shard: its manifest, and what `rows` keep of it, one for each shard."""

    def __init__(
        self, spec: Spec, bus: Bus, schemas: Schemas = DECLARED, rows: Iterable[Rows | None] | None = None
    ) -> None:
        self._spec = spec
        kept = [None] * spec.shards if rows is None else list(rows)
        self._followers = [Follower(spec, bus, i, schemas, each) for i, each in enumerate(kept)]
        self._derive()

    def _derive(self) -> None:
        """Once whenever something has come: a step asks for these many times."""
        self._derived = [each.snapshot for each in self._followers]
        self.snapshots = [each.snapshot for each in self._followers if each.snapshot is not None]
        """One for each shard that has one; in their order, once all have."""
        all_there = len(self.snapshots) == len(self._followers)
        self.snapshot: Snapshot | None = whole(self._spec, self.snapshots) if all_there else None
        """All shards as one; None until every one of them has a snapshot."""

    @property
    def blocks(self) -> list[ShardRows]:
        """The snapshot of every shard with the rows that are kept, once all are there."""
        found = [
            ShardRows(NO_ROWS if each.rows.arena is None else each.rows.arena, each.snapshot)
            for each in self._followers
            if each.snapshot is not None
        ]
        return found if len(found) == len(self._followers) else []

    @property
    def positions(self) -> list[int]:
        """How far each shard was read."""
        return [each.position for each in self._followers]

    def poll(self, timeout: float) -> list[Snapshot]:
        """Takes in what has come, and waits for the first shard alone; snapshots of all shards, oldest first.

        Of one shard without rows it is every snapshot; else the newest, as shards and rows are what they are now.
        """
        come = [follower.poll(timeout if i == 0 else 0.0) for i, follower in enumerate(self._followers)]
        if any(follower.snapshot is not each for follower, each in zip(self._followers, self._derived, strict=True)):
            self._derive()  # also of what came in a poll that failed halfway
        if len(come) == 1 and self._followers[0].rows.arena is None:
            return come[0]
        newest = self.snapshot if any(come) else None
        return [] if newest is None else [newest]

    def catch_up(self) -> Snapshot | None:
        """Reads to the ends as they are now."""
        for follower in self._followers:
            follower.catch_up()
        self._derive()
        return self.snapshot

    def close(self) -> None:
        for follower in self._followers:
            follower.close()
