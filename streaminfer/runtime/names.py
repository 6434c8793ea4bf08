"""What a spec's topics, groups and writers are called on a bus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import Bus, BusError, Topic, UnknownTopic
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.topics import Declaration, declarations
from streaminfer.variational.methods import method_of


class NotOurs(ValueError):
    """Something would be written to an external topic."""


class DataTopicMissing(BusError):
    """The external data topic does not exist."""


def topic(spec: Spec, short: str) -> str:
    """The full name of a declared topic."""
    return declarations()[short].topic(spec.name)


def data_topic(spec: Spec) -> str:
    """The topic that events are read from: the spec's own, or the external one that it names."""
    return spec.data.topic or topic(spec, "events")


def own_data_topic(spec: Spec) -> str:
    """The topic that events may be written to; raises NotOurs if the spec reads an external topic."""
    if spec.data.topic is not None:
        raise NotOurs(
            f"data.topic: {spec.data.topic!r} is an external topic, to which streaminfer never writes; send events "
            "to it as its owner does, or leave data.topic out to use the spec's own topic"
        )
    return topic(spec, "events")


def worker_service(spec: Spec) -> str:
    return method_of(spec.inference).worker


def worker_group(spec: Spec) -> str:
    return f"{spec.name}.{worker_service(spec)}"


def combines(spec: Spec) -> bool:
    """Whether the posterior is a combiner's, who then has the place of a master."""
    return spec.sampling is not None and spec.sampling.combine is not None


def master_group(spec: Spec) -> str:
    return f"{spec.name}.combiner" if combines(spec) else f"{spec.name}.master"


def master_writers(spec: Spec) -> str:
    """What the names of the writers of all shards begin with."""
    return f"{spec.name}.master."


def master_writer(spec: Spec, shard: int) -> str:
    return combiner_writer(spec) if combines(spec) else f"{master_writers(spec)}{shard}"


def master_topic(spec: Spec) -> str:
    """The topic whose partitions masters share out: who owns one is the master of that shard."""
    if combines(spec):
        return topic(spec, "combined")
    return topic(spec, "increments" if spec.sampling is None else "posterior")


def sampler_group(spec: Spec) -> str:
    """Shares out the partitions of `sampler-state`: who owns one runs the chain of that unit."""
    return f"{spec.name}.sampler"


def sampler_writers(spec: Spec) -> str:
    """What the names of the writers of all chains begin with."""
    return f"{spec.name}.sampler."


def sampler_writer(spec: Spec, unit: int) -> str:
    return f"{sampler_writers(spec)}{unit}"


def combiner_writer(spec: Spec) -> str:
    """The only writer of `posterior`, `questions` and `combined`, if draws are combined."""
    return f"{spec.name}.combiner"


def monitor_group(spec: Spec) -> str:
    """Shares out the one partition of `metrics`: who owns it measures."""
    return f"{spec.name}.monitor"


def monitor_writer(spec: Spec) -> str:
    return f"{spec.name}.monitor"


def loaders(spec: Spec) -> str:
    """What the groups and writers of `produce` begin with: one for each file."""
    return f"{spec.name}.produce."


def dead_letters_writer(spec: Spec) -> str:
    """The writer of events that are sent again."""
    return f"{spec.name}.dead-letters"


def shard_of(spec: Spec, key: bytes) -> int:
    """Which shard a key belongs to."""
    return partition_of(key, spec.shards)


def until_idle_group(spec: Spec) -> str:
    """Keeps the ends that `up --until-idle` waits for; workers that never linger cut a minibatch there."""
    return f"{spec.name}.until-idle"


def declared(spec: Spec) -> dict[str, Declaration]:
    """The declarations of the topics that a spec has, by short name."""
    has = {spec.inference.method} | (_variational(spec) if spec.sampling is None else _sampled(spec.sampling))
    return {name: each for name, each in declarations().items() if each.only_with is None or has & set(each.only_with)}


def _variational(spec: Spec) -> set[str]:
    return {"variational", "windows"} if spec.inference.windowed else {"variational"}


def _sampled(settings: Settings) -> set[str]:
    return {"samplers"} if settings.combine is None else {"samplers", "combine"}


def state_topics(spec: Spec) -> list[str]:
    """The topics that a master is restored from."""
    return [each.topic(spec.name) for name, each in declared(spec).items() if name in {"posterior", "statistics"}]


def topics_of(spec: Spec) -> list[Topic]:
    """Every topic of the spec's own, as declared; an external topic is not among them."""
    n_units = None if spec.sampling is None else spec.sampling.n_units
    counts = {"data": spec.data.partitions, "shard": spec.shards, "unit": n_units, "one": 1}
    return [
        Topic(d.topic(spec.name), count, d.cleanup, d.retention_ms, d.max_bytes)
        for d in declared(spec).values()
        if (count := counts[d.partitions]) is not None
    ]


def create_topics(spec: Spec, bus: Bus) -> None:
    """Makes those of the spec's own topics that are missing."""
    bus.create(topics_on(spec, bus))


def topics_on(spec: Spec, bus: Bus) -> list[Topic]:
    """The spec's own topics as they should be on a bus. Once there may have been more chains: their partitions stay."""
    by_unit = {each.topic(spec.name) for each in declared(spec).values() if each.partitions == "unit"}
    kept = {name: count_of(bus, name) for name in by_unit}
    return [replace(each, partitions=max(each.partitions, kept.get(each.name, 0))) for each in topics_of(spec)]


def count_of(bus: Bus, topic: str) -> int:
    """How many partitions a topic has on a bus; 0 of one that does not exist."""
    try:
        return len(bus.starts(topic))
    except UnknownTopic:
        return 0


def there(spec: Spec, bus: Bus, topics: Iterable[str]) -> list[str]:
    """Those of the declared topics, by short name, that exist on a bus."""
    return [short for short in topics if count_of(bus, topic(spec, short))]


def check_data_topic(spec: Spec, bus: Bus) -> None:
    """Raises DataTopicMissing if the external topic is not on the bus."""
    if spec.data.topic is None:
        return
    try:
        bus.starts(spec.data.topic)
    except UnknownTopic as error:
        raise DataTopicMissing(
            f"data.topic: topic {spec.data.topic!r} does not exist on {bus}. It is external, so streaminfer does "
            "not create it. Are the name (a Kafka bus with a namespace puts that in front) and --bus correct?"
        ) from error
