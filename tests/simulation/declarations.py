"""What the simulated broker says to declared topics: the same as every other bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaminfer.bus import declaration
from streaminfer.bus.protocol import Topic


def check(declared: Sequence[Topic], kept: Mapping[str, Topic]) -> None:
    """Raises ValueError for an impossible topic, TopicMismatch for one that is kept in another way."""
    if len({topic.name for topic in declared}) < len(declared):
        raise ValueError(f"a topic is declared twice among {[topic.name for topic in declared]}")
    for topic in declared:
        declaration.check(topic)
    for topic in declared:
        declaration.missing(topic, kept.get(topic.name))
