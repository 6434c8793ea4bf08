"""The prior of keys if it is fitted to them: it travels in manifests, so that all readers have the same."""

from __future__ import annotations

from typing import Final

from streaminfer.models.model import Model, conjugate, with_posterior
from streaminfer.spec import Spec
from streaminfer.spec.key import prior_from, prior_text
from streaminfer.variational import keyed
from streaminfer.variational.arena import Arena
from streaminfer.variational.snapshot import Snapshot

MAX_POOLED: Final = 1000
"""Keys that a pooled prior is fitted to."""
MAX_POOLED_NUMBERS: Final = 30_000
"""Statistics of them all: a fit of the slowest model takes 50 microseconds for each, and meanwhile a master does not
answer."""


def pooled(spec: Spec, arena: Arena) -> str | None:
    """The prior that is fitted to some of the keys; without a key there is none but the model's own.

    Which keys those are, and the order in which they are summed, depends on the keys alone.
    """
    if not arena.rows:
        return None
    most = max(2, min(MAX_POOLED, MAX_POOLED_NUMBERS // spec.model.size))
    return prior_text(conjugate(spec.model).pooled(keyed.some(spec.model, arena, most)))


def model_of(spec: Spec, snapshot: Snapshot) -> Model:
    """The spec's model, with the prior of a snapshot if it has one; raises DomainError if that is not a prior."""
    if snapshot.payload.prior is None or not spec.pooled:
        return with_posterior(spec.model)
    return prior_from(conjugate(spec.model), snapshot.payload.prior)
