"""What became of an increment that a master has met."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Outcome(Enum):
    """What became of an increment."""

    FOLDED = "folded"
    DAMPED = "damped"
    REJECTED = "rejected"
    BEHIND = "behind"
    AHEAD = "ahead"
    UNKNOWN_PARTITION = "unknown-partition"
    STALE_BASE = "stale-base"

    @property
    def moved(self) -> bool:
        """Whether the frontier moved."""
        return self in _MOVED


_MOVED: Final = {Outcome.FOLDED, Outcome.DAMPED, Outcome.REJECTED}
