"""What a spec's topics, groups and writers are called on a bus."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus, Topic
from streaminfer.spec import Spec
from streaminfer.topics import declarations

SHARDS = 1
"""One master holds the whole posterior."""


def topic(spec: Spec, short: str) -> str:
    """The full name of a declared topic."""
    return declarations()[short].topic(spec.name)


def worker_group(spec: Spec) -> str:
    return f"{spec.name}.svb-worker"


def master_group(spec: Spec) -> str:
    return f"{spec.name}.master"


def master_writer(spec: Spec, shard: int) -> str:
    return f"{spec.name}.master.{shard}"


def until_idle_group(spec: Spec) -> str:
    """Keeps the ends that `up --until-idle` waits for; workers that never linger cut a minibatch there."""
    return f"{spec.name}.until-idle"


def topics_of(spec: Spec) -> list[Topic]:
    """Every topic the spec needs, as declared."""
    counts = {"data": spec.data.partitions, "shard": SHARDS}
    return [
        Topic(d.topic(spec.name), counts[d.partitions], d.cleanup, d.retention_ms, d.max_bytes)
        for d in declarations().values()
    ]


def create_topics(spec: Spec, bus: Bus) -> None:
    """Makes the spec's topics where they are missing."""
    bus.create(topics_of(spec))
