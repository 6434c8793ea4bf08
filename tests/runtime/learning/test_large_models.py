"""Increments and snapshots of many records: a Gaussian of 100 fields on a bus with small records."""

from __future__ import annotations

import json

import numpy as np

from streaminfer.bus.protocol import Partition
from streaminfer.spec import parse_spec
from streaminfer.wire import snapshots
from tests.runtime.rig import Rig

FIELDS = [f"x{i}" for i in range(135)]
SPEC = parse_spec(
    {
        "name": "demo",
        "data": {"partitions": 1},
        "model": {"kind": "gaussian", "fields": FIELDS},
        "inference": {"minibatch": 3, "linger_ms": 0, "snapshot_ms": 1},
    }
)
ROWS = np.random.default_rng(3).normal(size=(6, 135))


def _rig() -> Rig:
    """Six events sent; a part of an increment has 16,896 numbers of 18,361, a chunk of a snapshot 1,024."""
    rig = Rig(SPEC, max_record_bytes=snapshots.ENVELOPE + 8192, merges=False)
    rig.send(*(json.dumps(dict(zip(FIELDS, row.tolist(), strict=True))).encode() for row in ROWS))
    return rig


def test_parts_are_folded_only_when_all_are_there() -> None:
    rig = _rig()
    master, worker = rig.master(), rig.worker()
    rig.run(master, rounds=3)
    rig.run(worker)
    assert [(each["part"], each["parts"]) for each in rig.increments()] == [(0, 2), (1, 2)] * 2
    assert all(len(record.value or b"") <= rig.bus.max_record_bytes for record in rig.records("increments"))
    log = rig.broker.log(Partition(rig.topic("increments"), 0))
    whole, log.end = log.end, 1
    rig.run(master, rounds=3)
    assert (rig.snapshot().read_to, rig.snapshot().n_events) == (1, 0)
    log.end = whole
    rig.run(master, worker)
    snapshot = rig.snapshot()
    assert (snapshot.n_events, snapshot.frontier.positions, snapshot.counts.n_dropped) == (6, {0: 6}, 0)
    expected = SPEC.model.posterior(SPEC.model.statistics(ROWS)).moments()["mean"].mean
    found = SPEC.model.posterior(snapshot.payload.statistics).moments()["mean"].mean
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_snapshot_in_chunks_is_complete_with_its_manifest() -> None:
    rig = _rig()
    rig.run(rig.master(), rig.worker())
    keys = [record.key for record in rig.records("posterior")]
    chunks = len(set(keys)) - 1
    assert chunks == (SPEC.model.size + len(SPEC.model.posterior(SPEC.model.empty()).natural)) // 1024
    assert keys[-chunks - 1 :] == [*(b"chunk-%d" % i for i in range(chunks)), b"manifest"]
    assert rig.snapshot().n_events == 6


def test_a_master_that_takes_over_between_parts_finds_back() -> None:
    rig = _rig()
    master, worker = rig.master(), rig.worker()
    rig.run(master, rounds=3)
    rig.run(worker)
    log = rig.broker.log(Partition(rig.topic("increments"), 0))
    whole, log.end = log.end, 1
    rig.run(master, rounds=3)
    log.end = whole
    master.close()
    rig.run(rig.master(), worker)
    assert (rig.snapshot().n_events, rig.snapshot().frontier.positions) == (6, {0: 6})
    assert rig.value("worker_seeks_back_total") == 1
