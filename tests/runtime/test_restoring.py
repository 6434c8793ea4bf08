"""What a master has committed every master can restore, and nothing on the topic shows another posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaminfer.runtime.service import Fatal
from streaminfer.runtime.shard import Shard
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from tests.runtime.rig import Rig, poisson


def _increment(rig: Rig, begin: int, end: int, **changes: object) -> Increment:
    known = Increment(
        rig.spec.fingerprint, "w", rig.topic("events"), 0, begin, end, end - begin, 0, 0, 0, 0.0,
        np.array([1.0, end - begin, 0.0]),
    )  # fmt: skip
    return replace(known, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("score", [1.7e308, -1.7e308, 1e101])
def test_a_score_that_no_events_have_is_a_dead_letter_and_the_next_master_restores(score: float) -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, 0, 1, score=score))
    rig.publish(_increment(rig, 0, 1, score=score))
    rig.publish(_increment(rig, 0, 1, score=-1e100))
    rig.publish(_increment(rig, 1, 2, score=-1e100))
    rig.run(master)
    assert rig.outcome("bad-value") == 2
    again = rig.master()
    master.close()
    rig.run(again)
    found = rig.snapshot()
    assert (found.n_events, found.score) == (2, -2e100)


def test_statistics_that_sum_to_no_number_are_rejected_and_counted() -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    for begin in range(3):
        rig.publish(_increment(rig, begin, begin + 1, statistics=np.array([1e308, 1.0, 0.0])))
    rig.run(master)
    found = rig.snapshot()
    assert rig.outcome("rejected") == 3
    assert (found.n_events, found.n_rejected) == (0, 3)
    master.close()
    rig.run(rig.master())
    assert rig.snapshot().n_rejected == 3


@pytest.mark.parametrize("fault", [{"score": float("inf")}, {"n_lost": -1}, {"created_at": 1 << 60}])
def test_what_cannot_be_read_is_never_written(fault: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    before = len(rig.records("posterior"))
    described = Shard._outputs

    def faulty(shard: Shard, snapshot: Snapshot) -> object:
        return described(shard, replace(snapshot, **fault))  # type: ignore[arg-type]

    monkeypatch.setattr(Shard, "_outputs", faulty)
    rig.publish(_increment(rig, 0, 1))
    with pytest.raises(Fatal, match=r"demo\.posterior: version 2 is not written: no master could restore it"):
        rig.run(master)
    assert len(rig.records("posterior")) == before
