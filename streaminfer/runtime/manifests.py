"""The statistics that the manifest of a shard has: of the whole posterior, or of words what all rows have in common."""

from __future__ import annotations

from streaminfer.spec import Spec
from streaminfer.variational import words
from streaminfer.variational.snapshot import Snapshot, together


def statistics_size(spec: Spec) -> int:
    return spec.model.size if spec.words is None else words.head_size(spec.words)


def check_statistics(spec: Spec, snapshot: Snapshot) -> None:
    """Raises DomainError where they give no posterior."""
    if spec.words is not None:
        words.head_of(spec.words, snapshot.statistics)
        return
    for held in (snapshot.statistics, *(clock.statistics for clock in snapshot.clocks.values())):
        spec.model.posterior(held)


def whole(spec: Spec, shards: list[Snapshot]) -> Snapshot:
    """All shards as one."""
    return together(shards, shared=spec.words is not None)
