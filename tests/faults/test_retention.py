"""Retention on Kafka removes events before a worker has read them: the loss is counted in positions, the rest exact."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime import names
from tests.faults.flowing import PATIENCE_S
from tests.faults.programs import Programs, document, n_events, services, wait_for

TOPIC = "kept.events"
PARTITIONS = 2


class Log:
    """Counts in both partitions, published without transactions: a position for each."""

    def __init__(self, folder: Path, address: str) -> None:
        self.url = f"kafka://{address}/retention-{uuid.uuid4().hex[:8]}"
        self.path = folder / "spec.yaml"
        document = {"name": "kept", "data": {"partitions": PARTITIONS}, "model": {"kind": "poisson", "field": "k"}}
        self.path.write_text(json.dumps({**document, "inference": {"minibatch": 20, "snapshot_ms": 50}}))
        self._random = random.Random(4)
        self.counts: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.bus = open_bus(self.url)
        names.create_topics(load_spec(self.path), self.bus)

    def publish(self, each: int) -> None:
        for index, counts in enumerate(self.counts):
            new = self._random.choices(range(9), k=each)
            self.bus.publish([Output(TOPIC, json.dumps({"k": k}).encode(), partition=index) for k in new])
            counts.extend(new)

    def remove_before(self, position: int) -> None:
        """In the first partition."""
        self.bus.delete_before(Partition(TOPIC, 0), position)
        assert self.bus.starts(TOPIC)[0] == position

    def check(self, lost: list[range]) -> None:
        """All but these positions of the first partition are in the posterior, once."""
        gone = {position for part in lost for position in part}
        kept = [k for i, k in enumerate(self.counts[0]) if i not in gone] + self.counts[1]
        found = document(self.path, self.url)
        assert (found["n_events"], found["n_lost"]) == (len(kept), len(gone))
        assert found["natural"] == [1.0 + sum(kept), 1.0 + len(kept)]
        assert found["frontier"] == {f"{TOPIC}-{i}": len(counts) for i, counts in enumerate(self.counts)}


@pytest.fixture
def log(programs: Programs, kafka_address: str) -> Iterator[Log]:
    made = Log(programs.folder, kafka_address)
    with made.bus:
        yield made


def test_what_was_removed_while_no_worker_ran_is_an_explicit_loss(programs: Programs, log: Log) -> None:
    log.publish(100)
    programs.run("up", log.path, "--until-idle", "--bus", log.url)
    log.check([])
    log.publish(100)
    log.remove_before(150)
    programs.run("up", log.path, "--workers", 2, "--until-idle", "--bus", log.url)
    log.check([range(100, 150)])
    log.publish(50)
    log.remove_before(250)  # all there is
    programs.run("up", log.path, "--until-idle", "--bus", log.url)
    log.check([range(100, 150), range(200, 250)])


@pytest.mark.long
def test_what_was_removed_before_a_sleeping_worker_is_an_explicit_loss(programs: Programs, log: Log) -> None:
    """What it had fetched already is not a loss: its count of lost positions must tell how much that was."""
    up = programs.start("up", log.path, "--workers", 1, "--bus", log.url)
    log.publish(100)
    wait_for(lambda: n_events(log.path, log.url) == 200, "the first events are absorbed", PATIENCE_S)
    (worker,) = services(up.pid, "svb-worker")
    os.kill(worker, signal.SIGSTOP)
    log.publish(1)  # the answer to the fetch that is under way
    time.sleep(1)
    log.publish(99)
    log.remove_before(170)
    log.publish(30)
    os.kill(worker, signal.SIGCONT)
    total = sum(map(len, log.counts))

    def all_told() -> bool:
        found = document(log.path, log.url)
        return bool(found["n_events"] + found["n_lost"] == total)

    wait_for(all_told, "every position is absorbed or lost", PATIENCE_S)
    assert up.end() == 0, up.err
    lost = document(log.path, log.url)["n_lost"]
    assert 0 < lost <= 70
    log.check([range(170 - lost, 170)])
