"""A snapshot: the posterior with all that says which events it contains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Statistics of all events below the frontier. Version 0 is the prior, before anything was published.

    `read_to` is the master's position in the increments topic; counts are of events, `n_lost` of positions,
    `n_dropped` of increments. `created_at` is in milliseconds since 1970.
    """

    fingerprint: str
    version: int
    statistics: NDArray[np.float64]
    frontier: Mapping[int, int]
    read_to: int = 0
    n_events: int = 0
    n_lost: int = 0
    n_dead_lettered: int = 0
    n_damped: int = 0
    n_rejected: int = 0
    n_dropped: int = 0
    score: float = 0.0
    staleness: int = 0
    created_at: int = 0
