"""What a topic may be declared as, and whether one that exists is kept so."""

from __future__ import annotations

import re

from streaminfer.bus.protocol import Topic, TopicMismatch

LARGEST_RECORD = 16 << 20
"""No topic may take larger records than this, which is also what one poll may bring."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check(topic: Topic) -> None:
    """Raises ValueError for a topic that cannot be."""
    if not _NAME.fullmatch(topic.name) or topic.name in (".", ".."):
        raise ValueError(f"topic name {topic.name!r}: 1 to 249 of the characters A-Z a-z 0-9 . _ - and not '.' or '..'")
    if topic.partitions < 1:
        raise ValueError(f"topic {topic.name!r}: partitions is {topic.partitions}, it must be at least 1")
    if topic.cleanup not in ("delete", "compact"):
        raise ValueError(f"topic {topic.name!r}: cleanup is {topic.cleanup!r}, it must be 'delete' or 'compact'")
    if not 1 <= topic.max_bytes <= LARGEST_RECORD:
        raise ValueError(f"topic {topic.name!r}: max_bytes is {topic.max_bytes}, it must be 1 to {LARGEST_RECORD}")
    if topic.retention_ms is not None and topic.retention_ms < 0:
        raise ValueError(f"topic {topic.name!r}: retention_ms is {topic.retention_ms}, it must not be negative")


def is_kept_longer(topic: Topic, kept: Topic) -> bool:
    """Whether a compacted topic was made when it was declared to be kept for ever: that does no harm."""
    return topic.cleanup == kept.cleanup == "compact" and kept.retention_ms is None and topic.retention_ms is not None


def missing(topic: Topic, kept: Topic | None) -> int:
    """How many partitions must be added to what is kept; raises TopicMismatch if adding does not help."""
    if kept is None:
        return topic.partitions
    for name, declared, stored in (
        ("cleanup", topic.cleanup, kept.cleanup),
        ("retention_ms", topic.retention_ms, kept.retention_ms),
        ("max_bytes", topic.max_bytes, kept.max_bytes),
    ):
        if declared != stored and not (name == "retention_ms" and is_kept_longer(topic, kept)):
            raise TopicMismatch(f"topic {topic.name!r}: {name} is {stored!r} on the bus but declared as {declared!r}")
    if topic.partitions < kept.partitions:
        raise TopicMismatch(
            f"topic {topic.name!r} has {kept.partitions} partitions, {topic.partitions} are declared; "
            "partitions can be added, never removed"
        )
    return topic.partitions - kept.partitions
