"""The kinds of posterior: of all events, of each key, topics of words, or draws. Only here they are told apart.

A keyed posterior and topics have rows, one for each key or word, beside their manifests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import DomainError, Matrix, Model, Posterior, Vector, with_posterior
from streaminfer.spec import Spec
from streaminfer.spec.key import tape_bytes
from streaminfer.tables import draws
from streaminfer.tables.demanded import lda_of
from streaminfer.tables.draws import Drawn
from streaminfer.tables.keyed import Keyed
from streaminfer.tables.learning import KeyedLearning, Learning, SingleLearning, WhichShard, WordLearning
from streaminfer.tables.pooled_prior import model_of
from streaminfer.tables.single import Single
from streaminfer.tables.sizes import most_dirty
from streaminfer.tables.table import Table
from streaminfer.tables.words import Words
from streaminfer.variational.arena import Arena
from streaminfer.variational.lda import words
from streaminfer.variational.lda.words import ShardRows
from streaminfer.variational.methods import method_of
from streaminfer.variational.snapshot import Snapshot

MERGED_BYTES: Final = 2 << 20
"""More does not make a master's work much less, and a worker's arrays too large for its caches."""
MERGED_KEYED_BYTES: Final = 128 << 10
"""All keys of an increment are in one snapshot, and these must stay small."""
WORDS_BYTES: Final = 16 << 20
"""A minibatch of documents is cut here: as words they take some ten times as much."""


def _any(_spec: Spec) -> None:
    return None


def _bytes_of_keys(spec: Spec) -> int | None:
    columns = spec.row_columns
    return None if columns is None else tape_bytes(spec.model.size, columns)


def _changed_keys(spec: Spec) -> int:
    return most_dirty(spec.model.size)


class Kind(NamedTuple):
    """One row of the table."""

    name: str
    row: str
    """What a row is of; empty if there are none."""
    together: bool
    """Whether rows make one posterior together, so that one of them alone says nothing."""
    statistics_size: Callable[[Spec], int]
    """Numbers of the statistics in a manifest."""
    row_size: Callable[[Spec], int]
    """Numbers of the statistics of a row."""
    check: Callable[[Spec, Snapshot], None]
    """Raises DomainError if the payload of a manifest gives no posterior, BadValue if its prior is not one."""
    proper: Callable[[Spec, Matrix], bool]
    """Whether statistics of rows give a posterior."""
    complete: Callable[[Spec, Arena, Snapshot], bool]
    """Whether the rows of a shard are those of a snapshot."""
    posterior: Callable[[Spec, Snapshot], Posterior]
    """The posterior that a snapshot gives, or that of a key; raises TypeError if it takes rows as well."""
    exactness: Callable[[Spec, Snapshot | None], str]
    """What the posterior of a snapshot is: `exact`, `sampled`, `bound` or `approximate`; of none, of them all."""
    n_scored: Callable[[Snapshot], int]
    """How many events the score of a snapshot is the sum of."""
    folding: Folding | None = None
    """How it is folded from increments; None: it is made of draws."""
    drawn: Drawn | None = None
    """What the draws are of; None: it is folded."""

    @property
    def has_rows(self) -> bool:
        return bool(self.row)

    @property
    def by_key(self) -> bool:
        """Whether each row is a posterior of its own."""
        return self.has_rows and not self.together

    @property
    def of_topics(self) -> bool:
        """Whether it is one of topics of words, which have no standard deviation to show."""
        return self.together if self.drawn is None else self.drawn.topics is not None


class Folding(NamedTuple):
    """How increments become a posterior."""

    table: Callable[[Spec, int], Table]
    """What a shard holds."""
    learning: Callable[[Spec, WhichShard], Learning]
    """How it learns from minibatches."""
    tape_bytes: Callable[[Spec], int | None] = _any
    """Bytes of records after which a minibatch is cut; None: no other limit than that of all."""
    merged_bytes: int = 0
    """Bytes of records of which one increment may be made, however many minibatches they are."""
    merged_positions: Callable[[Spec], int | None] = _any
    """Positions of such an increment: a short record may be of another key, with many statistics. None: any."""


def kind_of(spec: Spec) -> Kind:
    """The kind of a spec's posterior."""
    if spec.words is not None:
        return WORDS if spec.sampling is None else TOPIC_DRAWS
    if spec.sampling is not None:
        return DRAWS
    return SINGLE if spec.key is None else KEYED


def folding_of(spec: Spec) -> Folding:
    """How a spec's posterior is folded; raises TypeError if it is made of draws."""
    folding = kind_of(spec).folding
    if folding is None:
        raise TypeError(f"the posterior of {spec.name} is made of draws, not of increments")
    return folding


def drawn_of(spec: Spec) -> Drawn:
    """What the draws of a spec are of; raises TypeError if its posterior is folded."""
    drawn = kind_of(spec).drawn
    if drawn is None:
        raise TypeError(f"the posterior of {spec.name} is made of increments, not of draws")
    return drawn


def require_proper(model: Model, *statistics: Vector) -> None:
    """Raises the DomainError of the first that gives no posterior; no posterior is built of those that do."""
    rows = np.stack(statistics)
    for row in rows[~model.proper(rows)]:
        model.posterior(row)
        raise DomainError("statistics that give no posterior")


def _size(spec: Spec) -> int:
    return spec.model.size


def _check_posterior(spec: Spec, snapshot: Snapshot) -> None:
    """All that a master or worker goes on from, and what is published."""
    _check_average(spec, snapshot)
    model_of(spec, snapshot)
    model, method, held = with_posterior(spec.model), method_of(spec.inference), snapshot.payload
    derived = (each(model, spec.inference, snapshot) for each in (method.iterate, method.published))
    require_proper(model, held.statistics, *(clock.statistics for clock in held.clocks.values()), *derived)


def _check_head(spec: Spec, snapshot: Snapshot) -> None:
    _check_average(spec, snapshot)
    words.head_of(lda_of(spec), snapshot.payload.statistics)


def _check_average(spec: Spec, snapshot: Snapshot) -> None:
    held, step = snapshot.payload, spec.inference.step
    averaged = step is not None and step.constant is not None and not kind_of(spec).has_rows  # else it is in the rows
    if (held.average is not None) != (averaged and held.n_steps > 0):
        raise DomainError("an average must exist if and only if steps are constant and one was taken")


def _proper(spec: Spec, rows: Matrix) -> bool:
    return bool(spec.model.proper(rows).all())


def _complete(_spec: Spec, arena: Arena, snapshot: Snapshot) -> bool:
    return len(arena) == snapshot.counts.n_keys


def _single(spec: Spec, _shard: int) -> Table:
    return Single(spec)


def _keyed(spec: Spec, _shard: int) -> Table:
    return Keyed(spec)


def _posterior(spec: Spec, snapshot: Snapshot) -> Posterior:
    model = model_of(spec, snapshot)
    return model.posterior(method_of(spec.inference).published(model, spec.inference, snapshot))


def _of_rows(spec: Spec, _snapshot: Snapshot) -> Posterior:
    raise TypeError(f"the posterior of {spec.name} is that of all its words, which are not in a manifest")


def _exactness(spec: Spec, _snapshot: Snapshot | None) -> str:
    return spec.model.exactness


def _all_events(snapshot: Snapshot) -> int:
    return snapshot.n_events


def _no_event(_snapshot: Snapshot) -> int:
    """Who folds keys has no events, and who has the events no posterior of keys."""
    return 0


SINGLE: Final = Kind(
    "single", "", False, _size, _size, _check_posterior, _proper, _complete, _posterior, _exactness, _all_events,
    Folding(_single, SingleLearning, merged_bytes=MERGED_BYTES),
)  # fmt: skip
KEYED: Final = Kind(
    "keyed", "key", False, _size, _size, _check_posterior, _proper, _complete, _posterior, _exactness, _no_event,
    Folding(_keyed, KeyedLearning, _bytes_of_keys, MERGED_KEYED_BYTES, _changed_keys),
)  # fmt: skip
WORDS: Final = Kind(
    "words",
    "word",
    True,
    statistics_size=lambda spec: words.head_size(lda_of(spec)),
    row_size=lambda spec: words.row_size(lda_of(spec), spec.inference),
    check=_check_head,
    proper=lambda spec, rows: words.proper_rows(lda_of(spec), rows),
    complete=lambda spec, arena, snapshot: words.complete(lda_of(spec), ShardRows(arena, snapshot)),
    posterior=_of_rows,
    exactness=_exactness,
    n_scored=_all_events,
    folding=Folding(Words, WordLearning, lambda _: WORDS_BYTES),
)
DRAWS: Final = Kind(
    "draws",
    "",
    False,
    statistics_size=draws.statistics_size,
    row_size=lambda _: 0,
    check=draws.check,
    proper=lambda _spec, _rows: True,
    complete=_complete,
    posterior=draws.posterior_of,
    exactness=draws.exactness,
    n_scored=lambda snapshot: draws.sampled(snapshot).shown.n_scored,
    drawn=draws.OF_NUMBERS,
)
TOPIC_DRAWS: Final = DRAWS._replace(name="topic draws", drawn=draws.OF_TOPICS)
