"""The posterior that a worker learns from, and the rule on how old it may be."""

from __future__ import annotations

from typing import NamedTuple

from streaminfer.models.model import AnyModel, Model, Posterior, Vector


class Base(NamedTuple):
    """A posterior to start from: its version, how many events it has, the statistics and what they give."""

    version: int
    n_events: int
    statistics: Vector
    posterior: Posterior


def prior(model: Model) -> Base:
    """The posterior of no event, which is there before any snapshot."""
    return Base(0, 0, model.empty(), model.posterior(model.empty()))


def too_old(model: AnyModel, n_events: int, base_events: int) -> bool:
    """Whether more events came after a base than it had itself, beyond those that a model wants in their order.

    So an approximate posterior starts serially, and the more is known, the more minibatches may be learned side by
    side. Eight minibatches from one vague prior would each explain all that they see by themselves. Their sum would be
    wrong.
    """
    return n_events - base_events > side_by_side(model, base_events)


def side_by_side(model: AnyModel, base_events: int) -> int:
    """How many events may be learned from a base of N, at most, before there is a newer one."""
    return max(0, base_events - int(getattr(model, "serial_events", 0)))


def cavity(model: Model, base: Base, own: Vector) -> Base:
    """A base without the statistics of one of its batches, if they are additive; raises DomainError."""
    statistics = base.statistics - own
    return base._replace(statistics=statistics, posterior=model.posterior(statistics))
