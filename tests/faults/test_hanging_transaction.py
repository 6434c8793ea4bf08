"""A transaction that never ends stands before records: they are absorbed when the broker aborts it."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import uuid
from pathlib import Path

import pytest

from streaminfer import connect, load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.spec import Spec
from tests.faults.flowing import PATIENCE_S
from tests.faults.hanging import hang
from tests.faults.programs import Programs, document, n_events, services, wait_for
from tests.faults.watching import Watcher

EVENTS = 400
TIMEOUT_S = 15.0
"""The limit of the foreign transaction: longer than the ten seconds that our own commits wait for anything."""
FOREIGN = '{"k": 1000000}'


class Stream:
    """Counts on a data topic of two partitions in a namespace of its own, and their posterior."""

    def __init__(self, folder: Path, address: str) -> None:
        self.address, self.namespace = address, f"hanging-{uuid.uuid4().hex[:8]}"
        self.url = f"kafka://{address}/{self.namespace}"
        self.counts = random.Random(1).choices(range(9), k=EVENTS)
        self.path, self.data = folder / "spec.yaml", folder / "data.ndjson"
        document = {"name": "counts", "data": {"partitions": 2}, "model": {"kind": "poisson", "field": "k"}}
        self.path.write_text(json.dumps({**document, "inference": {"minibatch": 20, "snapshot_ms": 50}}))
        self.data.write_text("".join(json.dumps({"k": k}) + "\n" for k in self.counts))
        with open_bus(self.url) as bus:
            names.create_topics(self.spec, bus)

    @property
    def spec(self) -> Spec:
        return load_spec(self.path)

    def topic(self, kind: str) -> str:
        """As the broker knows it."""
        return f"{self.namespace}.{names.topic(self.spec, kind)}"

    def publish(self) -> None:
        values = self.data.read_bytes().splitlines()
        with open_bus(self.url) as bus:
            bus.publish([Output(names.topic(self.spec, "events"), v, partition=i % 2) for i, v in enumerate(values)])

    def absorbed(self) -> int:
        return n_events(self.path, self.url)

    def has_snapshot(self) -> bool:
        with connect(self.url) as connection:
            return connection.snapshot(self.spec) is not None

    def check(self) -> None:
        found = document(self.path, self.url)
        assert (found["n_events"], found["n_lost"], found["n_dead_lettered"]) == (EVENTS, 0, 0)
        assert found["natural"] == [1.0 + sum(self.counts), 1.0 + EVENTS]


@pytest.fixture
def stream(programs: Programs, kafka_address: str) -> Stream:
    return Stream(programs.folder, kafka_address)


@pytest.mark.long
def test_records_behind_an_open_transaction_wait_for_its_end(programs: Programs, stream: Stream) -> None:
    up = programs.start("up", stream.path, "--bus", stream.url)
    began = time.monotonic()
    hang(programs, stream.address, stream.namespace, TIMEOUT_S, stream.topic("events"), FOREIGN)
    stream.publish()
    wait_for(lambda: stream.absorbed() >= EVENTS // 2, "the other partition is absorbed", PATIENCE_S)
    seen = {stream.absorbed()}
    while time.monotonic() < began + TIMEOUT_S - 1:
        seen.add(stream.absorbed())
        time.sleep(0.2)
    assert seen == {EVENTS // 2}, "records behind the open transaction were read"
    wait_for(lambda: stream.absorbed() >= EVENTS, "the transaction is aborted and the rest absorbed", PATIENCE_S)
    assert up.end() == 0, up.err
    stream.check()


def test_up_until_idle_waits_for_its_rows_behind_an_open_transaction(programs: Programs, stream: Stream) -> None:
    hang(programs, stream.address, stream.namespace, TIMEOUT_S, stream.topic("events"), FOREIGN)
    programs.run("up", stream.path, "--data", stream.data, "--until-idle", "--bus", stream.url)
    stream.check()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["increments", "posterior"])
def test_a_foreign_transaction_among_increments_or_snapshots_is_waited_for(
    programs: Programs, stream: Stream, kind: str
) -> None:
    up = programs.start("up", stream.path, "--bus", stream.url)
    wait_for(stream.has_snapshot, "a first snapshot", PATIENCE_S)
    foreign = hang(programs, stream.address, stream.namespace, TIMEOUT_S, stream.topic(kind), "foreign")
    foreign.end(signal.SIGKILL)
    stream.publish()
    wait_for(lambda: stream.absorbed() >= EVENTS, "all is absorbed", PATIENCE_S)
    assert up.end() == 0, up.err
    stream.check()


@pytest.mark.long
def test_a_master_killed_behind_a_foreign_transaction_repeats_no_version(programs: Programs, stream: Stream) -> None:
    """Its successor cannot see what it committed last, and must not go on from what it sees."""
    up = programs.start("up", stream.path, "--bus", stream.url)
    wait_for(stream.has_snapshot, "a first snapshot", PATIENCE_S)
    watcher = Watcher(programs, stream.path, stream.url)
    wait_for(lambda: watcher.newest > 0, "the subscriber sees it")
    hang(programs, stream.address, stream.namespace, TIMEOUT_S, stream.topic("posterior"), "foreign")
    stream.publish()
    time.sleep(2)
    for _ in range(3):
        os.kill(services(up.pid, "master")[0], signal.SIGKILL)
        wait_for(lambda: bool(services(up.pid, "master")), "a master runs")
        time.sleep(2)
    wait_for(lambda: stream.absorbed() >= EVENTS, "all is absorbed", PATIENCE_S)
    assert up.end() == 0, up.err
    stream.check()
    watcher.check(document(stream.path, stream.url)["version"])


def test_a_master_killed_inside_its_transaction_blocks_its_successor_for_no_time(
    programs: Programs, stream: Stream
) -> None:
    """The successor has the same transactional id, which ends the transaction of the dead one."""
    writer = f"{stream.namespace}.{names.master_writer(stream.spec, 0)}"
    dead = hang(programs, stream.address, writer, 10 * 60, stream.topic("posterior"), "half a snapshot")
    dead.end(signal.SIGKILL)
    stream.publish()
    programs.run("up", stream.path, "--until-idle", "--bus", stream.url)
    stream.check()
