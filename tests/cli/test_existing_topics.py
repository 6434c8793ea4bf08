"""Commands on a spec that reads an external topic: what they show, refuse and wait for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from streaminfer import connect, load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output, Topic
from streaminfer.runtime.names import NotOurs
from tests.faults.buses import kafka_later
from tests.faults.programs import Programs, n_events, wait_for

SPEC = "{name: reader, data: {topic: orders, fields: {k: order.items}}, model: {kind: poisson, field: k}}"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


@kafka_later
def test_nothing_is_ever_written_to_it(programs: Programs, spec: Path, bus_url: str) -> None:
    """Neither made nor grown nor filled: what would do that is refused, with what to do instead."""
    run, orders = programs.run, Topic("orders", 3, "compact")
    with open_bus(bus_url) as bus:
        bus.create([orders])
        bus.publish([Output("orders", b"bad", b"k", 0), Output("orders", b'{"order": {"items": 2}}', b"k", 1)])
    run("up", spec, "--until-idle", "--bus", bus_url)
    data = programs.folder / "data.ndjson"
    data.write_text('{"order": {"items": 1}}\n')
    for command in (("produce", spec, data), ("up", spec, "--data", data), ("dead-letters", spec, "--retry")):
        refused = run(*command, "--bus", bus_url, code=2)
        assert "data.topic: 'orders' is an external topic, to which streaminfer never writes" in refused.err
    assert "`dead-letters --json` has the bytes of each in value_base64" in refused.err
    with connect(bus_url) as connection, pytest.raises(NotOurs):
        connection.produce(load_spec(spec), [{"order": {"items": 1}}])

    first, *own = run("topics", spec, "--apply", "--json", "--bus", bus_url).documents
    assert first == {
        "topic": "orders", "partitions": 3, "cleanup": "compact", "retention": "for ever", "records": 2,
        "status": "external",
    }  # fmt: skip
    assert [row["topic"] for row in own] == [
        f"reader.{name}" for name in ("increments", "posterior", "dead-letters", "metrics", "health")
    ]
    assert {row["status"] for row in own} == {"there"}
    with open_bus(bus_url) as bus:
        assert "reader.events" not in bus.topics()
        assert bus.topics()["orders"] == orders
        assert sum(bus.ends("orders").values()) == 2
    (letter,) = run("dead-letters", spec, "--json", "--bus", bus_url).documents
    assert (letter["topic"], letter["value"], letter["key_base64"], letter["length"]) == ("orders", "bad", "aw==", 3)


@kafka_later
def test_one_that_is_not_there(programs: Programs, spec: Path, bus_url: str) -> None:
    """Commands fail at once and say which name on which bus; services wait until the topic exists."""
    open_bus(bus_url).close()
    missing = programs.run("topics", spec, "--bus", bus_url, code=1)
    assert missing.out.splitlines()[1].split()[:5] == ["orders", "-", "-", "-", "-"]
    assert "missing: external, so streaminfer does not create it" in missing.out
    failed = programs.run("up", spec, "--bus", bus_url, code=1)
    assert f"data.topic: topic 'orders' does not exist on {bus_url}. It is external" in failed.err

    services = [programs.start("run", name, spec, "--bus", bus_url) for name in ("master", "svb-worker")]
    wait_for(lambda: all("topic 'orders' does not exist" in each.err for each in services), "services wait")
    assert all(each.alive for each in services)
    with open_bus(bus_url) as bus:
        bus.create([Topic("orders", 2)])
        bus.publish([Output("orders", b'{"order": {"items": 2}}', partition=i % 2) for i in range(10)])
    wait_for(lambda: n_events(spec, bus_url) == 10, "services go on")
    assert [each.end() for each in services] == [0, 0]


@pytest.mark.xdist_group("processes")
def test_validate_shows_whose_topic_it_is(programs: Programs, spec: Path) -> None:
    text = programs.run("validate", spec).out
    assert yaml.safe_load(text)["data"] == {
        "format": "json", "partitions": None, "topic": "orders", "fields": {"k": "order.items"},
        "timestamp": None, "schema": None, "schema_id": None,
    }  # fmt: skip
    spec.write_text(json.dumps({**yaml.safe_load(SPEC), "data": {"topic": "orders", "partitions": 3}}))
    assert "data.partitions: must not be set together with data.topic" in programs.run("validate", spec, code=2).err
