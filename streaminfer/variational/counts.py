"""What is counted of events: in one increment, and in all that a posterior contains."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """What a worker counts in a minibatch."""

    n_events: int = 0
    """Events that were learned from."""
    n_dead_lettered: int = 0
    """Events that could not be read."""
    n_lost: int = 0
    """Positions that retention removed before they were read."""
    n_unconverged: int = 0
    """Events learned by an algorithm that had not converged; a snapshot counts those of the current pass."""
    score: float = 0.0
    """The sum of the events' log predictive densities, each under the posterior before its minibatch; 0 with keys."""


@dataclass(frozen=True, slots=True)
class Totals(Counts):
    """What a master counts: the same of all increments, and what became of them."""

    n_damped: int = 0
    """Events whose increment was damped."""
    n_rejected: int = 0
    """Events whose increment was folded as no change."""
    n_dropped: int = 0
    """Increments that were not folded."""
    staleness: int = 0
    """The most versions that an increment's base was behind, since the last snapshot."""
    n_keys: int = 0
    """Keys or words that the shard has."""
    n_expired: int = 0
    """Keys that were dropped as idle."""
    n_pooled: int = 0
    """Events when the prior was last fitted to the keys; `n_events` only if it is fitted to the keys as they are."""
