"""The statistics that the manifest of a shard has: of the whole posterior, or of words what all rows have in common."""

from __future__ import annotations

from streaminfer.models.model import DomainError
from streaminfer.spec import Spec
from streaminfer.variational import blend, words
from streaminfer.variational.snapshot import Snapshot, together


def statistics_size(spec: Spec) -> int:
    return spec.model.size if spec.words is None else words.head_size(spec.words)


def check_statistics(spec: Spec, snapshot: Snapshot) -> None:
    """Raises DomainError where they give no posterior, or are of a pass or an average that the spec does not have."""
    step = spec.inference.step
    averaged = step is not None and step.constant is not None and spec.words is None  # each word's is in its row
    if (snapshot.average is not None) != (averaged and snapshot.n_steps > 0):
        raise DomainError("an average is there exactly where steps are constant and one was taken")
    if snapshot.epoch >= spec.inference.n_epochs:
        raise DomainError(f"epoch {snapshot.epoch} of {spec.inference.n_epochs}")
    if spec.words is not None:
        words.head_of(spec.words, snapshot.statistics)
        return
    for held in (snapshot.statistics, *(clock.statistics for clock in snapshot.clocks.values())):
        spec.model.posterior(held)
    if spec.inference.method == "svi":
        spec.model.posterior(blend.iterate(spec.model, spec.inference, snapshot))
        spec.model.posterior(blend.published(spec.model, spec.inference, snapshot))


def whole(spec: Spec, shards: list[Snapshot]) -> Snapshot:
    """All shards as one."""
    return together(shards, shared=spec.words is not None)
