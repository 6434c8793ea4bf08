"""The posteriors of all keys that were fitted to rows, as a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from streaminfer.models.keys import label_of
from streaminfer.runtime import names
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following.manifests import whole
from streaminfer.spec import Spec
from streaminfer.tables.one_key import of_key, unseen
from streaminfer.tables.table import Table
from streaminfer.variational.forgetting.decay import Clock


@dataclass
class Fitted:
    """One shard of a fit: its table, and the version in which each label has changed last."""

    table: Table
    versions: dict[bytes, int] = field(default_factory=dict)


class KeyedPosteriors(Mapping[str, PosteriorSnapshot]):
    """The posterior of every key, by the key; a whole number is the key that its decimal text is."""

    def __init__(self, spec: Spec, shards: Sequence[Fitted]) -> None:
        self.spec, self._shards = spec, shards
        self.snapshot = whole(spec, [shard.table.snapshot for shard in shards])
        """The counts of all keys together."""

    def __repr__(self) -> str:
        return f"<{self.name} version {self.version}: {self.n_events} events of {len(self)} keys>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def n_events(self) -> int:
        return self.snapshot.n_events

    def __len__(self) -> int:
        return sum(len(shard.table.rows) for shard in self._shards)

    def __iter__(self) -> Iterator[str]:
        """The keys in the order of their bytes in UTF-8."""
        labels = sorted(chain.from_iterable(shard.table.rows.rows for shard in self._shards))
        return (label.decode() for label in labels)

    def __contains__(self, key: object) -> bool:
        try:
            label = label_of(key)
        except (TypeError, ValueError):
            return False
        return label in self._shard(label).table.rows.rows

    def __getitem__(self, key: str | int) -> PosteriorSnapshot:
        if key not in self:
            raise KeyError(key)
        label = label_of(key)
        shard, found = self._shard(label), {}
        n_events = 0.0
        for entry in shard.table.rows.of(label):
            found[entry.clock] = Clock(entry.statistics.copy(), entry.n_effective, entry.newest)
            n_events += entry.n_events
        snapshot = of_key(self.spec, shard.table.snapshot, found, int(n_events), shard.versions[label])
        return PosteriorSnapshot(self.spec, snapshot, label.decode())

    def unseen(self, key: str | int) -> PosteriorSnapshot:
        """What a key without events starts from: the prior, or one that is fitted to the other keys of its shard."""
        label = label_of(key)
        return PosteriorSnapshot(self.spec, unseen(self.spec, self._shard(label).table.snapshot), label.decode())

    def _shard(self, label: bytes) -> Fitted:
        return self._shards[names.shard_of(self.spec, label)]
