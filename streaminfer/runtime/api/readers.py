"""Readers of a posterior for users: one for each kind of posterior, chosen once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following.keys import KeyFollower
from streaminfer.runtime.following.shards import Shards, rows_of
from streaminfer.spec import Spec
from streaminfer.tables.demanded import key_of, lda_of
from streaminfer.tables.draws import is_shown
from streaminfer.tables.kinds import DRAWS, KEYED, SINGLE, TOPIC_DRAWS, WORDS, kind_of
from streaminfer.variational.lda.posterior import posterior_of
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas


class Reader:
    """Snapshots of a posterior as users have them."""

    def __init__(
        self,
        source: Shards | KeyFollower,
        seen: Callable[[Snapshot], PosteriorSnapshot],
        is_one: Callable[[Snapshot], bool] = lambda _: True,
    ) -> None:
        """`is_one` says whether a snapshot has a posterior."""
        self._source, self._seen, self._is_one = source, seen, is_one

    def newest(self) -> PosteriorSnapshot | None:
        """The posterior as it is now; None if there is none yet."""
        found = self._source.catch_up()
        return None if found is None or not self._is_one(found) else self._seen(found)

    def poll(self, timeout: float) -> list[PosteriorSnapshot]:
        """Those that have come since the last call, oldest first."""
        return [self._seen(snapshot) for snapshot in self._source.poll(timeout) if self._is_one(snapshot)]

    def close(self) -> None:
        self._source.close()


def reader_of(spec: Spec, bus: Bus, key: str | None, schemas: Schemas) -> Reader:
    """Reads a posterior, or that of a key; raises ValueError if the spec has no keys, or one must be said."""
    return _READERS[kind_of(spec).name](spec, bus, key, schemas)


def _single(spec: Spec, bus: Bus, key: str | None, schemas: Schemas) -> Reader:
    if key is not None:
        key_of(spec)
    return Reader(Shards(spec, bus, schemas), lambda snapshot: PosteriorSnapshot(spec, snapshot))


def _keyed(spec: Spec, bus: Bus, key: str | None, schemas: Schemas) -> Reader:
    if key is None:
        raise ValueError(f"{spec.name}: there is one posterior for each {key_of(spec).field}: say which with `key`")
    return Reader(KeyFollower(spec, bus, key, schemas), lambda snapshot: PosteriorSnapshot(spec, snapshot, key))


def _words(spec: Spec, bus: Bus, key: str | None, schemas: Schemas) -> Reader:
    """With all words as they are now."""
    if key is not None:
        key_of(spec)
    shards = Shards(spec, bus, schemas, rows_of(spec, schemas))

    def seen(snapshot: Snapshot) -> PosteriorSnapshot:
        topics = posterior_of(lda_of(spec), spec.inference, shards.blocks)
        return PosteriorSnapshot(spec, snapshot, topics=topics)

    return Reader(shards, seen)


def _draws(spec: Spec, bus: Bus, key: str | None, schemas: Schemas) -> Reader:
    """Those that show draws: a first snapshot only fixes the first segment."""
    if key is not None:
        key_of(spec)
    return Reader(Shards(spec, bus, schemas), lambda snapshot: PosteriorSnapshot(spec, snapshot), is_shown)


_READERS: Final[Mapping[str, Callable[[Spec, Bus, str | None, Schemas], Reader]]] = {
    SINGLE.name: _single,
    KEYED.name: _keyed,
    WORDS.name: _words,
    DRAWS.name: _draws,
    TOPIC_DRAWS.name: _draws,
}
