"""Avro events whose schemas are in a registry: answers of a scripted one, and Confluent's client with a real one."""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from streaminfer import connect, load_spec
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.registry.http import RegistryError, RegistryUnavailable
from tests.faults.programs import Programs, document, free_port
from tests.registry.answers import Handler, serving
from tests.registry.conftest import URL
from tests.registry_server import Registry

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "k", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}  # fmt: skip
LATER = {**ORDER, "fields": [{"name": "k", "type": ["null", "long"]}, {"name": "id", "type": "string"}]}
WITHOUT = {**ORDER, "name": "Other", "fields": [{"name": "id", "type": "string"}]}


def write_spec(folder: Path, **data: Any) -> Path:
    path = folder / "orders.yaml"
    model = {"kind": "poisson", "field": "k"}
    path.write_text(json.dumps({"name": "orders", "data": {"format": "avro", "partitions": 2, **data}, "model": model}))
    return path


def test_answers_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(handler: Handler) -> None:
        match handler.path:
            case "/schemas/ids/1":
                handler.send_json(200, {"schema": json.dumps(ORDER)})
            case "/schemas/ids/2":
                handler.send_json(200, {"schema": "syntax", "schemaType": "PROTOBUF"})
            case "/schemas/ids/3":
                handler.send_json(200, {"id": 3})
            case "/schemas/ids/4":
                handler.send_json(404, {"error_code": 40403, "message": "Schema not found"})
            case _:
                handler.send_json(503, {})

    with serving(reply) as server:
        monkeypatch.setenv(URL, server.url)
        assert schemas.WriterSchemas()(1) == json.dumps(ORDER)
        assert schemas.WriterSchemas()(2) is None
        assert schemas.WriterSchemas()(4) is None
        with pytest.raises(RegistryError, match="answers for the id 3 without a schema"):
            schemas.WriterSchemas()(3)
        with pytest.raises(RegistryUnavailable):
            schemas.WriterSchemas()(5)
    monkeypatch.setenv(URL, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(RegistryUnavailable):
        schemas.WriterSchemas()(1)


def test_an_unknown_id_is_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each minibatch, and known ones at once; few are remembered."""
    known: set[str] = set()

    def reply(handler: Handler) -> None:
        if handler.path in known:
            handler.send_json(200, {"schema": json.dumps(ORDER)})
        else:
            handler.send_json(404, {"error_code": 40403, "message": "Schema not found"})

    now = [1000.0]
    lookup = schemas.WriterSchemas(lambda: now[0])
    with serving(reply) as server:
        monkeypatch.setenv(URL, server.url)
        assert [lookup(7), lookup(7), lookup(8), lookup(7)] == [None] * 4
        assert [path for _, path, _ in server.seen] == ["/schemas/ids/7", "/schemas/ids/8"]
        known.add("/schemas/ids/7")
        now[0] += schemas.UNKNOWN_S - 0.001
        assert lookup(7) is None
        now[0] += 0.001
        assert lookup(7) == json.dumps(ORDER)
        assert lookup(8) is None
        now[0] += schemas.UNKNOWN_S - 0.001
        assert lookup(8) is None
        assert len(server.seen) == 4, "the second answer counts anew"
        monkeypatch.setattr(schemas, "MAX_UNKNOWN", 2)
        for i in (20, 21, 22):
            assert lookup(i) is None
        asked = len(server.seen)
        assert [lookup(22), lookup(21)] == [None] * 2
        assert len(server.seen) == asked
        assert lookup(20) is None
        assert len(server.seen) == asked + 1, "the oldest was forgotten"


def test_a_registry_that_does_not_answer_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(503, {}), (200, {"schema": json.dumps(ORDER)})]
    lookup = schemas.WriterSchemas(lambda: 0.0)
    with serving(lambda handler: handler.send_json(*answers.pop(0))) as server:
        monkeypatch.setenv(URL, server.url)
        with pytest.raises(RegistryUnavailable):
            lookup(7)
        assert lookup(7) == json.dumps(ORDER)


def test_the_schema_of_own_events_is_registered_and_its_id_is_written(
    registry: Registry, told: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, registry.url)
    path, url = write_spec(tmp_path), f"embedded:{tmp_path / 'bus'}"
    with connect(url) as connection:
        assert connection.produce(load_spec(path), [{"k": i} for i in range(10)]) == 10
    (given,) = registry.ids("orders.events-value")
    assert given > 4
    told.run("up", path, "--until-idle", "--bus", url)
    assert document(path, url)["n_events"] == 10
    (row,) = [x for x in told.run("topics", path, "--json", "--bus", url).documents if x["topic"] == "orders.events"]
    assert (row["subject"], row["schema_id"], row["schema"]) == ("orders.events-value", given, "registered")


@pytest.mark.long
@pytest.mark.xdist_group("kafka")
def test_events_of_confluents_client_in_several_schemas(
    registry: Registry, told: Programs, kafka_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, registry.url)
    namespace = f"team-{uuid.uuid4().hex[:8]}"
    topic = f"{namespace}.shop"
    admin = AdminClient({"bootstrap.servers": kafka_address})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    client = SchemaRegistryClient({"url": registry.url})
    producer = Producer({"bootstrap.servers": kafka_address})

    def send(schema: Any, value: dict[str, Any]) -> bytes:
        data = AvroSerializer(client, json.dumps(schema))(value, SerializationContext(topic, MessageField.VALUE))
        assert data is not None
        producer.produce(topic, data)
        return bytes(data)

    for i in range(100):
        send(ORDER, {"id": f"{i}", "k": i, "at": 5, "tags": ["a"] * (i % 4)})
        send(LATER, {"id": f"{i}", "k": 1000})
    bad = [send(LATER, {"id": "x", "k": None}), send(WITHOUT, {"id": "y"})]
    assert producer.flush(30) == 0
    spec = write_spec(tmp_path, topic="shop", partitions=None)
    bus = f"kafka://{kafka_address}/{namespace}"
    told.run("up", spec, "--until-idle", "--bus", bus)
    found = document(spec, bus)
    assert (found["n_events"], found["n_dead_lettered"]) == (200, 2)
    assert found["natural"] == pytest.approx([1 + sum(range(100)) + 100_000, 201], rel=1e-9)
    letters = told.run("dead-letters", spec, "--json", "--bus", bus).documents
    assert sorted(base64.b64decode(letter["value_base64"]) for letter in letters) == sorted(bad)
    reasons = sorted(letter["reason"].partition(": ")[2] for letter in letters)
    assert reasons == ["is null, must be a whole number from 0 to 2^53", "k: is missing in the schema"]
