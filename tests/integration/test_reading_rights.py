"""On a broker with rights for each user: Read and Describe are enough for an external topic."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from streaminfer import load_spec
from streaminfer.bus.broker.settings import parse_address, settings_from
from streaminfer.bus.connect import open_bus
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import BusError, Output, Topic
from tests.brokers.node import free_port
from tests.faults.programs import Programs
from tests.integration.existing import Running
from tests.kafka_broker import Listener, local_broker

pytestmark = pytest.mark.long

USER, PASSWORD = "alice", "correct-horse-7531"
LOGIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
OWN = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)


@pytest.fixture
def addresses() -> Iterator[tuple[str, str]]:
    """The addresses of a user who may do everything, and of one who may do what she was given."""
    port = free_port()
    sasl = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": LOGIN}
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with local_broker(listeners={"PLAIN": Listener(port, "SASL_PLAINTEXT", settings=sasl)}, settings=rights) as broker:
        yield broker.address, f"127.0.0.1:{port}"


def _allow(address: str, orders: tuple[ACLOperation, ...]) -> None:
    def rule(kind: ResourceType, name: str, pattern: ACLResourcePatternType, operation: ACLOperation) -> ACL:
        return ACL(f"User:{USER}", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(kind, name, pattern))

    own = [rule(kind, "reader.", ACLResourcePatternType.PREFIXED, ACLOperation.ALL) for kind in OWN]
    theirs = [rule(ResourceType.TOPIC, "orders", ACLResourcePatternType.LITERAL, operation) for operation in orders]
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_acls([*own, *theirs])
    admin.close()


def test_read_and_describe_are_enough(
    addresses: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, reader = addresses
    _allow(owner, (ACLOperation.READ, ACLOperation.DESCRIBE))
    with open_bus(f"kafka://{owner}") as bus:
        bus.create([Topic("orders", 2)])
        bus.publish([Output("orders", b'{"k": 3}' if i % 10 else b"bad", partition=i % 2) for i in range(100)])
    path = tmp_path / "spec.yaml"
    path.write_text("{name: reader, data: {topic: orders}, model: {kind: poisson, field: k}}")
    environment = {
        "STREAMINFER_KAFKA_SECURITY": "SASL_PLAINTEXT",
        "STREAMINFER_KAFKA_ALLOW_PLAINTEXT": "1",
        "STREAMINFER_KAFKA_SASL_MECHANISM": "PLAIN",
        "STREAMINFER_KAFKA_USERNAME": USER,
        "STREAMINFER_KAFKA_PASSWORD": PASSWORD,
    }
    with KafkaBus(parse_address(f"//{reader}"), settings_from(environment)) as bus:
        services = Running(load_spec(path), bus)
        found = services.until_idle()
        services.close()
        assert (found.n_events, found.counts.n_dead_lettered) == (90, 10)
        with pytest.raises(BusError, match="may not DescribeConfigs the topic 'orders'"):
            bus.publish([Output("orders", b"{}")])
        assert set(bus.topics()) == {
            f"reader.{each}" for each in ("increments", "posterior", "dead-letters", "metrics", "health")
        }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    programs = Programs(tmp_path)
    first, *_ = programs.run("topics", path, "--json", "--bus", f"kafka://{reader}").documents
    assert first == {
        "topic": "orders", "partitions": 2, "cleanup": None, "retention": None, "records": 100,
        "status": "external",
    }  # fmt: skip
