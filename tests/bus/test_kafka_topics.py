"""Topics on Kafka that are kept in another way than declared: the error says what to set."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Output, TooLarge, Topic, TopicMismatch


@pytest.fixture
def bus(kafka_address: str) -> Iterator[KafkaBus]:
    with KafkaBus(Address((kafka_address,), uuid.uuid4().hex[:8])) as made:
        yield made


def test_a_mismatch_says_how_to_mend_it(bus: KafkaBus) -> None:
    bus.create([Topic("t", 1, max_bytes=1000)])
    name = re.escape(bus.public_name("t"))
    rest = rf"--entity-name {name} --add-config max.message.bytes=1179648$"
    with pytest.raises(
        TopicMismatch, match=r"'t': max.message.bytes is 132072 on the broker and must be 1179648\. " + f".*{rest}"
    ):
        bus.create([Topic("t", 1)])


def test_a_record_that_the_broker_refuses_names_its_topic_and_the_setting(bus: KafkaBus, kafka_address: str) -> None:
    bus.create([Topic("t", 1)])
    bus.publish([Output("t", b"small")])
    entry = ConfigEntry("max.message.bytes", "10000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, bus.public_name("t"), incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka_address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    with pytest.raises(TooLarge, match=r"increase max\.message\.bytes of the topic.*a record for t-0"):
        bus.publish([Output("t", random.Random(1).randbytes(20_000))])  # which compression makes no smaller


def test_a_compacted_topic_with_a_retention(bus: KafkaBus) -> None:
    declared = Topic("c", 1, "compact", 86_400_000)
    bus.create([declared])
    assert bus.topics()["c"] == declared
    bus.create([declared])
    with pytest.raises(TopicMismatch, match=r"cleanup\.policy is compact,delete on the broker and must be compact,"):
        bus.create([Topic("c", 1, "compact")])


def test_a_compacted_topic_of_before_is_kept_for_ever_as_it_was(bus: KafkaBus) -> None:
    bus.create([Topic("c", 1, "compact")])
    bus.create([Topic("c", 1, "compact", 86_400_000)])
    assert bus.topics()["c"] == Topic("c", 1, "compact")
    with pytest.raises(TopicMismatch, match=r"--add-config cleanup\.policy=delete,retention\.ms=5000$"):
        bus.create([Topic("c", 1, "delete", 5000)])
