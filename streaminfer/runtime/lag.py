"""How far a posterior is behind the log."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus
from streaminfer.variational.frontier import Frontier


def behind(frontier: Frontier, bus: Bus, topic: str) -> int:
    """Positions of a topic that the log has and the frontier has not reached; in this pass, if there are several."""
    ends = bus.ends(topic)
    reached = frontier.positions
    if not ends.keys() <= reached.keys():
        reached = {**bus.starts(topic), **reached}
    return sum(max(0, end - reached.get(index, end)) for index, end in ends.items())
