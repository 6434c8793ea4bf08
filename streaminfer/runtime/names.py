"""What a spec's topics, groups and writers are called on a bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import Bus, BusError, Topic, UnknownTopic
from streaminfer.spec import Spec
from streaminfer.topics import Declaration, declarations


class NotOurs(ValueError):
    """Something would be written to a topic that somebody else fills."""


class DataTopicMissing(BusError):
    """The topic that somebody else should fill is not there."""


def topic(spec: Spec, short: str) -> str:
    """The full name of a declared topic."""
    return declarations()[short].topic(spec.name)


def data_topic(spec: Spec) -> str:
    """The topic that events are read from: the spec's own, or somebody else's that it names."""
    return spec.data.topic or topic(spec, "events")


def own_data_topic(spec: Spec) -> str:
    """The topic that events may be written to; raises NotOurs where the spec reads somebody else's."""
    if spec.data.topic is not None:
        raise NotOurs(
            f"data.topic: {spec.data.topic!r} is somebody else's topic, to which streaminfer never writes; send events "
            "there as its owner does, or leave data.topic out for a topic of the spec's own"
        )
    return topic(spec, "events")


WORKERS: Final[Mapping[str, str]] = {"svb": "svb-worker", "svi": "svi-worker", "memoized": "svi-worker"}
"""The worker service of each method of inference."""


def worker_service(spec: Spec) -> str:
    return WORKERS[spec.inference.method]


def worker_group(spec: Spec) -> str:
    return f"{spec.name}.{worker_service(spec)}"


def master_group(spec: Spec) -> str:
    return f"{spec.name}.master"


def master_writer(spec: Spec, shard: int) -> str:
    return f"{spec.name}.master.{shard}"


def shard_of(spec: Spec, key: bytes) -> int:
    """Which shard a key belongs to."""
    return partition_of(key, spec.shards)


def until_idle_group(spec: Spec) -> str:
    """Keeps the ends that `up --until-idle` waits for; workers that never linger cut a minibatch there."""
    return f"{spec.name}.until-idle"


def declared(spec: Spec) -> dict[str, Declaration]:
    """The declarations of the topics that a spec has, by short name."""
    has = {"windows"} if spec.inference.windowed else {spec.inference.method}
    return {name: each for name, each in declarations().items() if each.only_with is None or has & set(each.only_with)}


def state_topics(spec: Spec) -> list[str]:
    """The topics that a master is restored from."""
    return [each.topic(spec.name) for name, each in declared(spec).items() if name in {"posterior", "statistics"}]


def topics_of(spec: Spec) -> list[Topic]:
    """Every topic of the spec's own, as declared; a topic that somebody else fills is not among them."""
    counts = {"data": spec.data.partitions, "shard": spec.shards}
    return [
        Topic(d.topic(spec.name), count, d.cleanup, d.retention_ms, d.max_bytes)
        for d in declared(spec).values()
        if (count := counts[d.partitions]) is not None
    ]


def create_topics(spec: Spec, bus: Bus) -> None:
    """Makes the spec's own topics where they are missing."""
    bus.create(topics_of(spec))


def check_data_topic(spec: Spec, bus: Bus) -> None:
    """Raises DataTopicMissing where the topic that somebody else fills is not on the bus."""
    if spec.data.topic is None:
        return
    try:
        bus.starts(spec.data.topic)
    except UnknownTopic as error:
        raise DataTopicMissing(
            f"data.topic: there is no topic {spec.data.topic!r} on {bus}; it is somebody else's, so streaminfer does "
            "not make it. Is it the right name (a Kafka bus with a namespace puts that in front), and the right --bus?"
        ) from error
