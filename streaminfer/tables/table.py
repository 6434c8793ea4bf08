"""What one shard of a posterior is: a snapshot, the rows of its keys or words, and what every kind of it can do.

A posterior is a fold over a log. What is folded differs by kind: one posterior, one for each key, topics of words. How
it is read, owned, followed and committed does not differ. That code asks a table, and never which kind it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import ByKey, Increment, Layout
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot


class Place(NamedTuple):
    """The place of a pane or batch: its clock or data partition, and its index there or its first position."""

    clock: int
    at: int


class Columns(NamedTuple):
    """Statistics (m, K) of some words."""

    keys: ByKey
    statistics: Matrix


Item = Vector | Columns
"""The statistics of one pane or batch."""


class Kept(NamedTuple):
    """One pane or batch as it is kept; without an item it is gone."""

    place: Place
    n_events: int = 0
    item: Item | None = None


class Keeping(Protocol):
    """What a table keeps beside its snapshot, on the topic `statistics`."""

    @property
    def what(self) -> str:
        """A word for many of them."""

    @property
    def most(self) -> int:
        """How many there may be at a time."""

    @property
    def least(self) -> int:
        """How many events each has at least."""

    @property
    def columns(self) -> bool:
        """Whether each has rows of words; otherwise it is one vector of the model's statistics."""

    def clear(self) -> None:
        """Forgets what was put."""

    def put(self, kept: Kept) -> int:
        """Takes in what was kept, and returns its bytes; raises DomainError if it is not of this table."""

    def whole(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with all that was put; raises DomainError if that is not its own."""

    def changes(self, old: Snapshot, new: Snapshot) -> Iterator[Kept]:
        """What must be written so that what is kept of `old` becomes that of `new`."""

    def find(self, snapshot: Snapshot, place: Place) -> Kept | None:
        """What a snapshot has in a place."""

    def summary(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as it is published, without what is kept apart."""

    def published(self) -> None:
        """What has changed is on the topic."""


class Described(NamedTuple):
    """What a manifest says of a posterior beside its statistics."""

    kind: str
    family: str
    exactness: str
    natural: NDArray[np.float64]


class Table(Protocol):
    """One shard. `snapshot` has the frontier and the counts, `rows` the statistics of keys or words, if any."""

    snapshot: Snapshot
    rows: Arena

    @property
    def keeping(self) -> Keeping | None:
        """What it keeps beside the snapshot; None: nothing."""

    @property
    def row_size(self) -> int:
        """Numbers of a row; 0 if there are no rows."""

    @property
    def layout(self) -> Layout:
        """How its increments are laid out."""

    def start(self) -> Snapshot:
        """The snapshot of no event."""

    def clear(self) -> None:
        """Forgets all rows."""

    def missing(self, snapshot: Snapshot) -> str | None:
        """Why the rows are not all those of a snapshot; None if they are."""

    def may_hide(self, label: bytes) -> bool:
        """Whether a record of this label that cannot be read may have been a newer row, which `missing` cannot tell."""

    def take_back(self, label: bytes, clock: int, count: float | None) -> bool:
        """Has the row of a later snapshot written anew; False if there is nothing to write in its place.

        `count` is what that row counted; None if it cannot be read.
        """

    def taken_back(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot after rows were taken back."""

    def fold(self, increment: Increment, fresh_from: int, base_events: int) -> Outcome:
        """Takes an increment into the snapshot and rows, or leaves them as they are; see `variational.fold`."""

    def fold_all(self, increments: Sequence[Increment]) -> list[Outcome] | None:
        """The same as `fold` of one after the other, in one pass; None: it was not done, as that may differ."""

    def settle(self, before: Snapshot, ends: Callable[[], Mapping[int, int]]) -> None:
        """What is due before a commit; `before` is the last snapshot, `ends` tells those of the data."""

    @property
    def full(self) -> bool:
        """Whether a snapshot must come at once, as it is large."""

    @property
    def restless(self) -> bool:
        """Whether something is to be done once the data is at rest."""

    def rest(self, ends: Mapping[int, int]) -> str:
        """Does it, and says what; it must be committed at once."""

    def turn(self) -> bool:
        """Starts the next pass if this one is at its end, and whether that was so."""

    def published(self) -> None:
        """All that has changed is in a snapshot on the bus."""

    @property
    def n_effective(self) -> float:
        """The sum of the weights of the events."""

    def described(self, snapshot: Snapshot) -> Described:
        """The posterior that a snapshot publishes."""
