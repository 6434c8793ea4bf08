"""Costs from two runs, and clusters whose rate queueing theory knows."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from benchmarks import scale
from benchmarks.costs import ONE, PARTITIONS, TWO, Costs, Spent, costs, cpu_seconds, full_at, of_figures, samples
from benchmarks.measure import Figure
from benchmarks.scale import Cluster, Machine, play

CHEAP = Costs(event=4e-6, broker_event=1e-9, increment=1e-6, snapshot=1e-5, events_a_step=10_000)


def test_two_runs_tell_what_an_increment_and_what_a_snapshot_costs() -> None:
    fast = Spent(1_000_000, 4.0, 100, 80, 4.0, 100 * 0.002 + 80 * 0.003 + 4.0 * 0.03, 1.0, 4, 0.03)
    slow = Spent(1_000_000, 4.0, 110, 4, 4.0, 110 * 0.002 + 4 * 0.003 + 4.0 * 0.03, 1.0, 4, 0.03)
    found = costs(fast, slow)
    assert found == pytest.approx(Costs(4e-6, 1e-6, 0.002, 0.003, 40_000, 0.03))
    assert full_at(found) == pytest.approx((1 - 0.03 - 0.06) * 4e-6 * 40_000 / 0.002)
    shown = samples(fast, slow)
    assert shown["master's share"] == pytest.approx(0.56 / 4.0)
    figures = [Figure("x1", name, "", (value,)) for name, value in {**shown, TWO: 300_000.0}.items()]
    assert of_figures(figures, "x1")[0] == pytest.approx(found)
    with pytest.raises(LookupError, match="no case x2"):
        of_figures(figures, "x2")


def test_costs_that_noise_has_turned_round_are_not_negative() -> None:
    fast = Spent(1_000_000, 4.0, 100, 80, 4.0, 0.2, 0.0, 4)
    for master in (0.01, 5.0):
        found = costs(fast, fast._replace(increments=105, snapshots=5, master=master))
        assert found.increment >= 0
        assert found.snapshot >= 0


def test_the_cpu_of_a_process_is_counted() -> None:
    before, own = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() < own + 0.05:
        pass
    assert cpu_seconds(os.getpid()) - before >= 0.045


def test_a_machine_is_shared_equally_and_nobody_has_more_than_a_core() -> None:
    machine = Machine(2)
    for job, seconds in enumerate((1.0, 2.0, 3.0)):
        machine.add(0.0, job, seconds, lambda: None)
    ends = []
    while (end := machine.next_end()) < float("inf"):
        machine.finish(end)
        ends.append(end)
    assert ends == pytest.approx([1.5, 2.5, 3.5])


@pytest.mark.parametrize("workers", [1, 5])
def test_workers_that_wait_for_nobody_are_busy(workers: int) -> None:
    found = play(Cluster(workers, workers), CHEAP)
    assert found.rate == pytest.approx(workers / CHEAP.event, rel=0.05)
    assert found.full == "workers"


def test_a_full_master_takes_what_its_core_can_fold() -> None:
    dear = CHEAP._replace(increment=0.0005, snapshot=0.005, events_a_step=500)
    found = play(Cluster(8, 8), dear)
    assert found.rate == pytest.approx((1 - 0.005 / 0.055) * 500 / 0.0005, rel=0.1)
    assert found.full == "masters"
    two = play(Cluster(8, 8, shards=2), dear)
    assert two.rate == pytest.approx(found.rate, rel=0.05), "every increment goes to both shards"


def test_full_brokers_bound_the_rate() -> None:
    found = play(Cluster(8, 8, brokers=2), CHEAP._replace(broker_event=2e-6))
    assert found.rate == pytest.approx(2 / 2e-6, rel=0.05)
    assert found.full == "brokers"


def test_on_one_machine_all_share_its_cores() -> None:
    dear = CHEAP._replace(broker_event=1e-6)
    assert play(Cluster(4, 4, one_machine=2), dear).rate == pytest.approx(2 / 5e-6, rel=0.07)


def test_below_what_it_can_do_it_does_what_comes_and_soon() -> None:
    cluster = Cluster(4, 16, offered=50_000)
    found = play(cluster, CHEAP)
    assert found.rate == pytest.approx(50_000, rel=0.05)
    assert 0.01 < found.delay < 0.1
    slow = play(replace(cluster, snapshot_s=0.5), CHEAP)
    assert slow.delay > 3 * found.delay


def test_all_of_it_is_told() -> None:
    measured = {
        "worker": 4.0, "broker": 1.0, "an increment": 0.5, "a snapshot": 3.0, "events an increment": 2_500.0,
        "a master at rest": 0.03,
        ONE: 200_000.0, TWO: 380_000.0,
    }  # fmt: skip
    assert PARTITIONS == 4
    text = scale.told([Figure("x1", name, "", (value,)) for name, value in measured.items()], "x1", 2, (4, 16))
    assert "a master follows" in text
    assert [line.split()[0] for line in text.splitlines() if line[:1].isdigit()] == ["1", "2", "4", "16"]
