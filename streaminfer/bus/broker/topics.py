"""Topics on the broker: which there are, how they are kept, and making those that are missing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import TopicAlreadyExistsError

from streaminfer.bus.broker.connection import Connection
from streaminfer.bus.declaration import check, is_kept_longer, missing
from streaminfer.bus.protocol import BusError, Partition, Topic, TopicMismatch, Unavailable, UnknownTopic

OVERHEAD: Final = 128 << 10
"""Kafka limits batches, not records: room for what it adds to a record, and for a full batch of small ones."""
CATALOG_AGE_S: Final = 2.0
"""How old the number of a topic's partitions may be when a key chooses among them."""
SEEN_WITHIN_S: Final = 3.0
"""How long a broker may take to hear of a topic that another one knows; meanwhile it answers as to a user without
the right to see it, and the client drops the code that tells the two apart."""
FOREVER: Final = -1
LARGEST_TIME: Final = (1 << 63) - 1
NO_LEADER: Final = frozenset({5, 6, 9})
"""Kafka's codes for a topic that exists and cannot be asked now: LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
REPLICA_NOT_AVAILABLE."""


class Catalog:
    """What topics there are. For writing, settings are asked once, numbers of partitions every few seconds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._topics: dict[str, Topic] = {}
        self._asked_at: dict[str, float] = {}
        self._numbers: dict[str, int] = {}
        """Partitions of topics that are read: nothing else of these need be known."""

    def topics(self) -> dict[str, Topic]:
        """Every topic of this bus whose settings this user may see, as it is now."""
        described = self._connection.ask("listing topics", lambda admin: admin.describe_topics())
        counts = _counts(described)
        named = {name: self._connection.names.inside(name) for name in counts}
        mine = {name: inside for name, inside in named.items() if inside is not None}
        return self._load({name: counts[name] for name in mine}, again=True)

    def entry(self, topic: str) -> Topic:
        """A topic as it was a moment ago; raises UnknownTopic."""
        self._connection.check_open()
        if topic in self._topics and time.monotonic() - self._asked_at[topic] < CATALOG_AGE_S:
            return self._topics[topic]
        return self.fresh(topic)

    def fresh(self, topic: str) -> Topic:
        """A topic as it is now; raises UnknownTopic."""
        return self._seen({self._connection.names.outside(topic): self.count(topic)})[topic]

    def count(self, topic: str) -> int:
        """How many partitions a topic has now; raises UnknownTopic.

        A reader of an external topic needs no right to see its settings, so they are not asked for.
        """
        self._numbers[topic] = len(self._described(topic)["partitions"])
        return self._numbers[topic]

    def topic_id(self, topic: str) -> str:
        """The id that the cluster gave a topic when it was made; raises UnknownTopic."""
        return str(self._described(topic)["topic_id"])

    def allowed(self, topic: str) -> frozenset[str] | None:
        """The operations that this user may do with a topic, as its broker says; None if it does not say."""
        found = self._described(topic).get("authorized_operations")
        return None if found is None else frozenset(found)

    def _described(self, topic: str) -> dict[str, Any]:
        """A topic as the cluster describes it now; raises UnknownTopic, of a known one if no broker knows it soon."""
        self._connection.check_open()
        name = self._connection.names.outside(topic)
        until = time.monotonic() + (SEEN_WITHIN_S if topic in self._topics or topic in self._numbers else 0.0)
        while True:
            described = self._connection.ask(f"describing topic {topic!r}", lambda admin: admin.describe_topics([name]))
            found = next((each for each in described if each["name"] == name and not each["error_code"]), None)
            codes = {each["error_code"] for each in described if each["name"] == name}
            if codes & NO_LEADER:
                raise Unavailable(f"topic {topic!r} has no leader at the moment")
            if found is not None:
                return dict(found)
            if time.monotonic() >= until:
                break
            time.sleep(0.1)
        self._topics.pop(topic, None)
        self._numbers.pop(topic, None)
        raise UnknownTopic(f"topic {topic!r} does not exist")

    def check_partition(self, partition: Partition) -> None:
        """Raises UnknownTopic. Partitions are added, never removed: a number that is large enough need not be new."""
        number = self._numbers.get(partition.topic, 0)
        if partition.index >= number:
            number = self.count(partition.topic)
        if not 0 <= partition.index < number:
            raise UnknownTopic(f"topic {partition.topic!r} has partitions 0 to {number - 1}, not {partition.index}")

    def create(self, topics: Sequence[Topic]) -> None:
        """Checks all, then makes what is missing, then waits until every partition has a leader."""
        for topic in topics:
            check(topic)
        if len({topic.name for topic in topics}) < len(topics):
            raise ValueError(f"a topic is declared twice among {', '.join(topic.name for topic in topics)}")
        kept = self._kept(topics)
        for topic in topics:
            if topic.name in kept:
                _check_kept(self._connection.names.outside(topic.name), topic, kept[topic.name])
        lacking = {topic.name: missing(topic, kept.get(topic.name)) for topic in topics}
        new = [topic for topic in topics if topic.name not in kept]
        grown = [topic for topic in topics if topic.name in kept and lacking[topic.name]]
        if new:
            self._make(new)
        if grown:
            self._grow(grown)
        if new or grown:
            self._await_leaders([*new, *grown])
            self.create(topics)  # another process may have been faster and have declared something else

    def _kept(self, topics: Sequence[Topic]) -> dict[str, Topic]:
        names = [self._connection.names.outside(topic.name) for topic in topics]
        described = self._connection.ask("describing topics", lambda admin: admin.describe_topics(names))
        return self._seen(_counts(described), again=True)

    def _make(self, topics: Sequence[Topic]) -> None:
        settings = self._connection.settings
        wanted = {
            self._connection.names.outside(topic.name): {
                "num_partitions": topic.partitions,
                "replication_factor": settings.replication,
                "configs": {
                    **kept_as(topic),
                    # If clocks differ by an hour the broker would refuse all that we write until they agree.
                    "message.timestamp.after.max.ms": str(LARGEST_TIME),
                    **(settings.compacted if topic.cleanup == "compact" else {}),
                },
            }
            for topic in topics
        }

        def make(admin: Any) -> None:
            try:
                admin.create_topics(wanted, timeout_ms=self._connection.deadline_ms // 2)
            except TopicAlreadyExistsError:
                if len(wanted) > 1:  # the answer names one topic only: the others are tried by themselves
                    for name, one in wanted.items():
                        _make_one(admin, name, one, self._connection.deadline_ms // 2)

        self._connection.ask("creating topics", make)

    def _grow(self, topics: Sequence[Topic]) -> None:
        totals = {self._connection.names.outside(topic.name): topic.partitions for topic in topics}
        timeout = self._connection.deadline_ms // 2
        self._connection.ask("adding partitions", lambda admin: admin.create_partitions(totals, timeout_ms=timeout))

    def _await_leaders(self, topics: Sequence[Topic]) -> None:
        names = {self._connection.names.outside(topic.name): topic.partitions for topic in topics}
        deadline = time.monotonic() + self._connection.deadline_s
        while True:
            described = self._connection.ask("waiting for leaders", lambda admin: admin.describe_topics(list(names)))
            led = {
                found["name"]: sum(part["leader_id"] >= 0 and not part["error_code"] for part in found["partitions"])
                for found in described
            }
            if all(led.get(name, 0) >= count for name, count in names.items()):
                return
            if time.monotonic() > deadline:
                raise Unavailable(f"topics without leaders after {self._connection.deadline_s:g} s: {', '.join(names)}")
            time.sleep(0.05)

    def _seen(self, counts: dict[str, int], again: bool = False) -> dict[str, Topic]:
        """As `_load`, with all of them; raises BusError if the settings of one stay hidden."""
        until = time.monotonic() + SEEN_WITHIN_S
        while True:
            found = self._load(counts, again)
            inside = [self._connection.names.inside(name) or name for name in counts]
            hidden = [name for name in inside if name not in found]
            if not hidden:
                return found
            if time.monotonic() > until:
                raise BusError(
                    f"topic {hidden[0]!r}: this user may not see its settings; to write to it, the user needs the "
                    f"right DescribeConfigs"
                )
            time.sleep(0.1)

    def _load(self, counts: dict[str, int], again: bool = False) -> dict[str, Topic]:
        """Topics by their names here, from the broker's names and numbers of partitions; none of hidden settings."""
        now = time.monotonic()
        inside = {name: self._connection.names.inside(name) or name for name in counts}
        unknown = [name for name in counts if again or inside[name] not in self._topics]
        configs = self._configs(unknown) if unknown else {}
        for name, count in counts.items():
            short = inside[name]
            kept = configs.get(name) or self._topics.get(short)
            if kept is None:
                continue
            self._topics[short] = Topic(short, count, kept.cleanup, kept.retention_ms, kept.max_bytes)
            self._asked_at[short] = now
        return {short: self._topics[short] for short in inside.values() if short in self._topics}

    def _configs(self, names: Sequence[str]) -> dict[str, Topic]:
        keys = ("cleanup.policy", "retention.ms", "max.message.bytes")
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys(keys)) for name in names]
        answer = self._connection.ask(
            "reading topic settings", lambda admin: admin.describe_configs(resources, config_filter="all")
        )
        found = {}
        for name, values in answer["topic"].items():
            if not values:
                continue  # what a broker answers to a user that may not see them
            policy, retention, size = (values[key]["value"] for key in keys)
            cleanup, kept_ms = _kept_for(policy, int(retention))
            found[name] = Topic(name, 1, cleanup, kept_ms, int(size) - OVERHEAD)
        return found


def kept_as(topic: Topic) -> dict[str, str]:
    """How a topic is kept, in the broker's words."""
    both = topic.cleanup == "compact" and topic.retention_ms is not None
    return {
        "cleanup.policy": "compact,delete" if both else topic.cleanup,
        "retention.ms": str(FOREVER if topic.retention_ms is None else topic.retention_ms),
        "max.message.bytes": str(topic.max_bytes + OVERHEAD),
    }


def _kept_for(policy: str, retention_ms: int) -> tuple[Any, int | None]:
    """The cleanup and retention of the broker's words. A topic that is only compacted has no retention."""
    policies = set(policy.replace(" ", "").split(","))
    if policies == {"compact", "delete"}:
        policy = "compact"
    elif policies == {"compact"}:
        return policy, None
    return policy, None if retention_ms == FOREVER else retention_ms


def _check_kept(name: str, declared: Topic, kept: Topic) -> None:
    """Raises TopicMismatch with what an administrator must set."""
    if is_kept_longer(declared, kept):
        declared = replace(declared, retention_ms=None)
    wanted, found = kept_as(declared), kept_as(kept)
    wrong = {setting: value for setting, value in wanted.items() if found[setting] != value}
    if wrong:
        said = ", ".join(
            f"{setting} is {found[setting]} on the broker and must be {wrong[setting]}" for setting in wrong
        )
        listed = {setting: f"[{value}]" if "," in value else value for setting, value in wrong.items()}
        config = ",".join(f"{setting}={value}" for setting, value in listed.items())
        raise TopicMismatch(
            f"topic {declared.name!r}: {said}. Set it with kafka-configs --alter --entity-type topics --entity-name "
            f"{name} --add-config {config}"
        )


def _make_one(admin: Any, name: str, wanted: dict[str, Any], timeout_ms: int) -> None:
    try:
        admin.create_topics({name: wanted}, timeout_ms=timeout_ms)
    except TopicAlreadyExistsError:
        return  # what was asked for; whether it is kept as declared is checked afterwards


def _counts(described: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Partitions of the topics that exist."""
    return {found["name"]: len(found["partitions"]) for found in described if not found["error_code"]}
