"""What must not happen: long steps, endless repetition, a posterior thrown away or poisoned."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from streaminfer import fit, parse_spec
from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.folding.master import STEP_RECORDS
from streaminfer.runtime.learning.worker import STEP_MINIBATCHES
from streaminfer.runtime.service import Fatal
from streaminfer.variational.increment import Increment
from tests.made import changed, new_increment
from tests.runtime.rig import Rig, poisson


def _increment(rig: Rig, begin: int, end: int, **changes: object) -> Increment:
    known = new_increment(
        fingerprint=rig.spec.fingerprint, topic=rig.topic("events"), begin=begin, end=end, n_events=end - begin,
        statistics=np.array([1.0, end - begin, 0.0]),
    )  # fmt: skip
    return changed(known, **changes)


def test_a_step_of_the_master_folds_a_bounded_number() -> None:
    rig = Rig(poisson(snapshot_ms=1000))
    rig.send(*[0] * 300)
    master = rig.master()
    rig.run(master, rounds=3)
    for i in range(300):
        rig.publish(_increment(rig, i, i + 1))
    counts = []
    for _ in range(5):
        master.step(0.0)
        counts.append(rig.outcome("folded"))
    assert np.diff([0.0, *counts]).max() == STEP_RECORDS
    assert counts[-1] == 300


def test_a_step_of_a_worker_reads_a_bounded_number_of_minibatches() -> None:
    rig = Rig(poisson(minibatch=1))
    rig.send(*[0] * 300)
    worker, master = rig.worker(), rig.master()
    rig.run(master, worker, rounds=2)
    before = len(rig.increments())
    worker.step(0.0)
    assert len(rig.increments()) - before <= STEP_MINIBATCHES
    rig.run(worker, master, rounds=20)
    assert rig.snapshot().n_events == 300


def test_cadence_does_not_depend_on_the_wall_clock() -> None:
    rig = Rig(poisson(snapshot_ms=50))
    wall = [1e9]
    master = rig.master()
    master._wall = lambda: wall[0]
    rig.run(master, rounds=3)
    wall[0] -= 3600
    rig.publish(_increment(rig, 0, 1))
    rig.run(master, rounds=12)
    assert rig.snapshot().n_events == 1
    assert rig.snapshot().created_at == int(wall[0] * 1000)


def test_densities_that_float64_cannot_hold_do_not_stop_a_partition() -> None:
    model = {"kind": "linear_regression", "features": ["a", "b"], "target": "y", "intercept": False}
    rig = Rig(parse_spec({"name": "far", "data": {"partitions": 1}, "model": model,
                          "inference": {"minibatch": 5, "linger_ms": 10, "snapshot_ms": 1}}))  # fmt: skip
    first = [{"a": 1e-300, "b": 1e-8, "y": -1e100 * (1 - 1e-3 * i)} for i in range(5)]
    rows = [*first, {"a": 3.0, "b": -1e100, "y": 1e-160}]
    worker, master = rig.worker(), rig.master()
    for row in rows:
        rig.send(json.dumps(row).encode())
        rig.run(worker, master, rounds=4)
    rig.run(worker, master, rounds=20)
    found = rig.snapshot()
    assert (found.n_events, rig.outcome("bad-value")) == (6, 0)
    assert np.isfinite(found.counts.score)


def test_an_increment_beyond_the_end_of_the_log_is_refused() -> None:
    rig = Rig(poisson())
    rig.send(1, 2)
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, 0, 2**40, n_events=0))
    rig.publish(_increment(rig, 0, 1, epoch=1))
    rig.run(master)
    assert rig.snapshot().frontier.positions == {0: 0}
    reasons = [letter.reason for letter in list(Pending(rig.spec, rig.bus))]
    assert reasons == [
        "bad-value: end must not be beyond the 2 of demo.events-0 (1099511627776)",
        "bad-value: epoch must be 0, there is one pass over the data (got 1)",
    ]
    rig.run(rig.worker(), master)
    assert rig.snapshot().n_events == 0, "two events do not fill a minibatch of four that never lingers"


@pytest.mark.parametrize("value", [b"\x00\x00\x00\x00\x63newer", b"garbage"])
def test_a_posterior_that_cannot_be_read_is_not_thrown_away(value: bytes) -> None:
    rig = Rig(poisson(linger_ms=5))
    rig.send(1, 2, 3)
    rig.run(rig.worker(), rig.master(), rounds=20)
    assert rig.snapshot().n_events == 3
    rig.bus.publish([Output(rig.topic("posterior"), value, b"manifest", 0)])
    rig.broker.compact(rig.topic("posterior"))
    rig.clock.advance(60)
    with pytest.raises(Fatal, match=r"^demo.posterior-0 offset \d+: .*(written by a newer|No whole snapshot is left)"):
        rig.run(rig.master(), rounds=3)
    assert [record.value for record in rig.records("posterior")] == [value]


def test_a_snapshot_outside_the_domain_counts_as_unreadable() -> None:
    rig = Rig(poisson())
    rig.run(rig.master(), rounds=3)
    good = rig.snapshot()
    bad = changed(good, version=good.version + 1, statistics=np.array([-5.0, 1.0, 0.0]))
    from streaminfer.wire import snapshots

    about = snapshots.About("demo", "poisson", "gamma", "svb", "exact")
    ((key, data),) = snapshots.encode(bad, np.zeros(2), about, 1 << 20)
    rig.bus.publish([Output(rig.topic("posterior"), data, key, 0)])
    assert rig.snapshot().version == good.version
    rig.clock.advance(60)
    rig.run(rig.master(), rounds=3)
    assert (rig.snapshot().version, rig.snapshot().n_events) == (good.version + 2, good.n_events)


def test_a_letter_of_a_partition_that_never_was_stays_and_the_others_are_sent() -> None:
    rig = Rig(poisson(linger_ms=5))
    rig.send(b"junk")
    rig.run(rig.worker(), rig.master(), rounds=20)
    (real,) = list(Pending(rig.spec, rig.bus))
    foreign = replace(real, partition=77)
    rig.bus.publish([Output(rig.topic("dead-letters"), b"x", foreign.key, 0, foreign.to_headers())])
    found = list(Pending(rig.spec, rig.bus))
    assert sum(store.retry(rig.spec, rig.bus, found)) == 1
    assert [letter.partition for letter in list(Pending(rig.spec, rig.bus))] == [77]
    assert rig.broker.log(Partition(rig.topic("events"), 0)).records[-1].value == b"junk"


def test_numbers_of_numpy_count_as_numbers() -> None:
    spec = parse_spec({"name": "n", "model": {"kind": "bernoulli", "field": "y"}})
    assert fit(spec, [{"y": np.int64(1)}, {"y": np.float32(0)}]).n_events == 2


def test_formats_of_specs_are_those_that_can_be_decoded() -> None:
    from streaminfer.spec.data import FORMATS
    from streaminfer.wire.events import formats

    assert set(FORMATS) == set(formats.FORMATS)
