"""The state of a chain: all that it goes on with after a kill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.sampling.draws import PHASES, Counters
from streaminfer.sampling.units import Spans

NO_SEGMENT: Final = -1
"""The number of the segment before the first."""
STATE_PHASES: Final = ("waiting", *PHASES)


@dataclass(frozen=True, slots=True, eq=False)
class SamplerState:
    """A unit after `block` blocks and `step` steps of a segment, with `n_drawn` draws of it published.

    `digest` is that of the segment's events, hexadecimal, empty before they are read. `values` changes with every
    block and `setup` is fixed in a segment; the method says how each is laid out. `topic_id` is the incarnation of the
    data topic.
    """

    fingerprint: str
    unit: int
    segment: int
    phase: str
    step: int
    block: int
    n_drawn: int
    thin: int
    frontier: Spans
    n_events: int
    digest: str
    counters: Counters
    values: Vector
    setup: Vector
    n_dead_lettered: int
    n_lost: int
    topic_id: str


def waiting(fingerprint: str, unit: int) -> SamplerState:
    """The state of a unit before its first segment."""
    nothing = np.empty(0)
    return SamplerState(
        fingerprint, unit, NO_SEGMENT, "waiting", 0, 0, 0, 1, (), 0, "", Counters(), nothing, nothing, 0, 0, ""
    )
