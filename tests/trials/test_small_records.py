"""A broker or topic that takes only small records, while snapshots are large: an error that says what to do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from tests.faults.programs import Programs, document, n_events, wait_for
from tests.kafka_broker import LocalBroker, local_broker

FIELDS = 120
"""A gaussian of this many fields has a snapshot of about 220 kB."""
ROWS = 300
SMALL = 100_000


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """Its own limit is small; a topic's setting goes before it."""
    with local_broker(settings={"message.max.bytes": SMALL}) as started:
        yield started


def write(folder: Path) -> tuple[Path, Path]:
    names = [f"x{i}" for i in range(FIELDS)]
    spec, data = folder / "spec.yaml", folder / "data.csv"
    model = {"kind": "gaussian", "fields": names}
    spec.write_text(json.dumps({"name": "large", "data": {"partitions": 2}, "model": model}))
    rows = np.random.default_rng(2).normal(size=(ROWS, FIELDS))
    np.savetxt(data, rows, delimiter=",", header=",".join(names), comments="")
    return spec, data


def limit(broker: LocalBroker, topic: str) -> None:
    """What an administrator does with kafka-configs."""
    entry = ConfigEntry("max.message.bytes", str(SMALL), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


@pytest.mark.long
def test_a_brokers_limit_does_not_bind_our_topics(programs: Programs, broker: LocalBroker) -> None:
    spec, data = write(programs.folder)
    url = f"kafka://{broker.address}/{uuid.uuid4().hex[:8]}"
    programs.run("up", spec, "--data", data, "--until-idle", "--bus", url)
    found = document(spec, url)
    assert (found["n_events"], found["n_rejected"]) == (ROWS, 0)
    assert len(json.dumps(found["natural"])) > 2 * SMALL


@pytest.mark.long
@pytest.mark.parametrize("short", ["posterior", "increments"])
def test_a_topic_that_takes_only_small_records_is_an_error_at_the_start(
    programs: Programs, broker: LocalBroker, short: str
) -> None:
    spec, data = write(programs.folder)
    space = uuid.uuid4().hex[:8]
    url = f"kafka://{broker.address}/{space}"
    programs.run("produce", spec, data, "--bus", url)
    programs.run("topics", spec, "--apply", "--bus", url)
    limit(broker, f"{space}.large.{short}")
    said = programs.run("up", spec, "--until-idle", "--bus", url, code=1).err
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert f"large.{short}" in last
    assert "max.message.bytes" in last


@pytest.mark.long
def test_a_limit_that_is_set_while_services_run_is_an_error_too(programs: Programs, broker: LocalBroker) -> None:
    spec, data = write(programs.folder)
    space = uuid.uuid4().hex[:8]
    url = f"kafka://{broker.address}/{space}"
    programs.run("up", spec, "--data", data, "--until-idle", "--bus", url)
    worker, master = (programs.start("run", service, spec, "--bus", url) for service in ("svb-worker", "master"))
    event = Output("large.events", json.dumps({f"x{i}": 1.0 for i in range(FIELDS)}).encode())
    with open_bus(url) as bus:
        bus.publish([event])
        wait_for(lambda: n_events(spec, url) == ROWS + 1, "the services have begun")
        before = document(spec, url)
        limit(broker, f"{space}.large.posterior")
        bus.publish([event])
    assert master.process.wait(120) == 1
    assert "Traceback" not in master.err
    last = master.err.splitlines()[-1]
    assert "large.posterior" in last
    assert "max.message.bytes" in last
    assert worker.end() == 0, worker.err
    assert document(spec, url) == before
