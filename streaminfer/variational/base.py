"""The posterior that a worker learns from, and the rule on how old it may be."""

from __future__ import annotations

from typing import NamedTuple

from streaminfer.models.model import Model, Posterior, Vector
from streaminfer.spec import Inference
from streaminfer.variational import blend
from streaminfer.variational.snapshot import Snapshot


class Base(NamedTuple):
    """A posterior to start from: its version, how many events it has, the statistics and what they give."""

    version: int
    n_events: int
    statistics: Vector
    posterior: Posterior


def prior(model: Model) -> Base:
    """The posterior of no event, which is there before any snapshot."""
    return Base(0, 0, model.empty(), model.posterior(model.empty()))


def of(model: Model, inference: Inference, snapshot: Snapshot) -> Base:
    """What a snapshot offers to start from."""
    statistics = blend.iterate(model, inference, snapshot)
    return Base(snapshot.version, snapshot.n_events, statistics, model.posterior(statistics))


def too_old(n_events: int, base_events: int) -> bool:
    """Whether more events came after a base than it had itself.

    So an approximate posterior starts serially, and more minibatches may be learned side by side the more is known:
    eight from one vague prior would each explain all that they see by themselves, and their sum would be wrong.
    """
    return n_events - base_events > base_events
