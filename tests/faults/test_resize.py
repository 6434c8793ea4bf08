"""Workers come and go while data flows: partitions are shared out among those that are there."""

from __future__ import annotations

import re
from urllib.request import urlopen

from tests.faults.answers import poisson
from tests.faults.feeding import Feeder
from tests.faults.programs import Programs, document, free_port, n_events, wait_for
from tests.faults.watching import Watcher

EVENTS, STEP = 6_000, 1_000
PARTITIONS = 4


class Worker:
    """`run svb-worker` with its metrics page."""

    def __init__(self, programs: Programs, spec: object, url: str) -> None:
        self._port = free_port()
        address = f"127.0.0.1:{self._port}"
        self.program = programs.start("run", "svb-worker", spec, "--bus", url, "--http", address)

    def metric(self, name: str) -> float:
        """A number of its /metrics page; -1 while there is none, as the page is there before the worker is."""
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
                page = answer.read().decode()
        except OSError:
            assert self.program.alive, self.program.err
            return -1
        found = re.findall(rf"^streaminfer_worker_{name}{{.*}} (\S+)$", page, re.MULTILINE)
        return float(found[0]) if found else -1


def shares(workers: list[Worker]) -> list[float]:
    return [worker.metric("partitions") for worker in workers]


def test_one_worker_becomes_four_and_one_again(programs: Programs, bus_url: str) -> None:
    case = poisson(EVENTS)
    spec = case.write_spec(programs.folder / "spec.yaml", "resize", PARTITIONS, minibatch=20, snapshot_ms=20)
    watcher = Watcher(programs, spec, bus_url)
    master = programs.start("run", "master", spec, "--bus", bus_url)
    feeder = Feeder(programs, spec, case.write_csv(programs.folder / "data.csv"), bus_url, rows=50, nap=0.02)
    allowed = 0

    def absorb_more() -> None:
        nonlocal allowed
        allowed += STEP
        feeder.allow(allowed)
        wait_for(lambda: n_events(spec, bus_url) >= allowed, f"{allowed} rows are absorbed")

    workers = [Worker(programs, spec, bus_url)]
    wait_for(lambda: shares(workers) == [4], "one worker has all partitions")
    absorb_more()
    feeder.allow(allowed := allowed + STEP)
    workers += [Worker(programs, spec, bus_url) for _ in range(3)]
    wait_for(lambda: shares(workers) == [1, 1, 1, 1], "each of four workers has one partition")
    before = [worker.metric("events_total") for worker in workers]
    absorb_more()
    for worker, count in zip(workers, before, strict=True):
        assert worker.metric("events_total") > count, "a worker with a partition did nothing"
    feeder.allow(allowed := allowed + STEP)
    for worker in workers[:3]:
        assert worker.program.end() == 0, worker.program.err
    wait_for(lambda: shares(workers[3:]) == [4], "the one that is left has all partitions")
    absorb_more()

    feeder.finish()
    wait_for(lambda: n_events(spec, bus_url) >= EVENTS, "all rows are absorbed")
    for program in (workers[3].program, master):
        assert program.end() == 0, program.err
    found = document(spec, bus_url)
    case.check(found)
    watcher.check(found["version"])
