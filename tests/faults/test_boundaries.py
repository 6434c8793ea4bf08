"""A sweep over every commit boundary of every service: it dies there, starts again, and the posterior is exact."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streaminfer import connect, load_spec
from streaminfer.bus.protocol import Record
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.loading import produce
from tests.contracts.bus_harness import read_all
from tests.faults import crashing
from tests.faults.buses import kind, params_with
from tests.faults.crashing import Boundary
from tests.faults.forks import Forked
from tests.faults.programs import wait_for

AT_ONCE = 4
"""Boundaries tried side by side, each with topics of its own: most of the time is waiting."""
BAD = b'{"k": -1}'
NEVER = Boundary()


@dataclass
class Trial:
    """One boundary: topics of its own, with every event once and some of them bad."""

    folder: Path
    url: str
    name: str
    events: int
    chunk: int
    """Records read, events in a minibatch and rows in a batch: small, so that there are many writes."""

    def __post_init__(self) -> None:
        counts = random.Random(1).choices(range(9), k=self.events)
        self.values = [BAD if i % 40 == 7 else json.dumps({"k": k}).encode() for i, k in enumerate(counts)]
        good = [k for i, k in enumerate(counts) if i % 40 != 7]
        self.natural = [1.0 + sum(good), 1.0 + len(good)]
        self.file = self.folder / f"{self.name}.ndjson"
        self.file.write_bytes(b"\n".join(self.values) + b"\n")
        self.spec_path = self.folder / f"{self.name}.yaml"
        inference = {"minibatch": self.chunk, "linger_ms": 20, "snapshot_events": 1}
        document = {"name": self.name, "data": {"partitions": 1}, "model": {"kind": "poisson", "field": "k"}}
        self.spec_path.write_text(json.dumps({**document, "inference": inference}))
        self.spec = load_spec(self.spec_path)

    def dies(self, role: str, boundary: Boundary) -> bool:
        """Plays it all; whether the process died at the boundary, or was at the end before it came there."""
        with ExitStack() as stack:
            self.connection = stack.enter_context(connect(self.url))
            names.create_topics(self.spec, self.connection.bus)
            died = ROLES[role](self, stack, boundary)
            wait_for(self._drained, f"{self.name}: everything is absorbed")
            self._check()
        return died

    def worker(self, stack: ExitStack, boundary: Boundary) -> bool:
        """A worker dies while a master folds what it sends."""
        self._load()
        stack.enter_context(self._serve("master"))
        died = self._dies("svb-worker", boundary, self._drained)
        stack.enter_context(self._serve("svb-worker"))
        return died

    def lonely_worker(self, stack: ExitStack, boundary: Boundary) -> bool:
        """A worker dies while no master runs: after it has started again, all that it had sent is there twice."""
        self._load()
        with self._serve("master"):
            wait_for(lambda: self.connection.snapshot(self.spec) is not None, f"{self.name}: a first frontier")
        batches = self.events // self.chunk
        died = self._dies("svb-worker", boundary, lambda: self._sent() >= batches)
        sent = self._sent()
        stack.enter_context(self._serve("svb-worker"))
        wait_for(lambda: self._sent() >= sent + batches, f"{self.name}: everything is sent once more")
        stack.enter_context(self._serve("master"))
        return died

    def master(self, stack: ExitStack, boundary: Boundary) -> bool:
        """A master dies while a worker sends."""
        self._load()
        stack.enter_context(self._serve("svb-worker"))
        died = self._dies("master", boundary, self._drained)
        stack.enter_context(self._serve("master"))
        return died

    def loader(self, stack: ExitStack, boundary: Boundary) -> bool:
        """`produce` dies, and is started again; what it brought is absorbed after that."""
        codes = []
        for where in (boundary, NEVER):
            with Forked(crashing.load, self.file, self.spec_path, self.url, where, self.chunk) as process:
                wait_for(lambda process=process: process.exitcode is not None, f"{self.name}: produce ends")
                codes.append(process.exitcode)
            if codes == [0] or boundary == self._end_of_load:
                break
        assert codes in ([0], [-signal.SIGKILL, 0]) or boundary == self._end_of_load
        for service in crashing.ROLES:
            stack.enter_context(self._serve(service))
        return codes[0] != 0

    def _serve(self, service: str, boundary: Boundary = NEVER) -> Forked:
        records = self.chunk if service == "svb-worker" else 1
        return Forked(crashing.serve, service, self.spec_path, self.url, boundary, records)

    def _dies(self, service: str, boundary: Boundary, at_the_end: Callable[[], bool]) -> bool:
        with self._serve(service, boundary) as process:
            wait_for(lambda: process.exitcode is not None or at_the_end(), f"{self.name}: {service} ends")
            assert process.exitcode in (None, -signal.SIGKILL)
            return process.exitcode is not None

    def _load(self) -> None:
        for _ in produce.Loader(self.spec, self.connection.bus, self.file).run():
            pass
        assert [record.value for record in self._records()] == self.values

    @property
    def _end_of_load(self) -> Boundary:
        """Open, every batch, and the mark that the file is done: to start `produce` after that loads it once more."""
        return Boundary(2 + self.events // self.chunk, after=True)

    def _sent(self) -> int:
        return self.connection.bus.ends(names.topic(self.spec, "increments"))[0]

    def _drained(self) -> bool:
        found = self.connection.snapshot(self.spec)
        ends = self.connection.bus.ends(names.topic(self.spec, "events"))
        return found is not None and dict(found.snapshot.frontier.positions) == ends

    def _check(self) -> None:
        found = self.connection.snapshot(self.spec)
        assert found is not None
        bad = self.values.count(BAD)
        assert dict(found.snapshot.frontier.positions) == self.connection.bus.ends(names.topic(self.spec, "events"))
        assert (found.n_events, found.snapshot.counts.n_dead_lettered) == (self.events - bad, bad)
        assert found.posterior.natural.tolist() == self.natural
        listed = list(Pending(self.spec, self.connection.bus))
        assert [letter.value for letter in listed] == [BAD] * bad
        assert [letter.offset for letter in listed] == [r.offset for r in self._records() if r.value == BAD]

    def _records(self) -> list[Record]:
        return read_all(self.connection.bus, names.topic(self.spec, "events"))


ROLES: dict[str, Callable[[Trial, ExitStack, Boundary], bool]] = {
    "worker": Trial.worker,
    "lonely-worker": Trial.lonely_worker,
    "master": Trial.master,
    "produce": Trial.loader,
}


def sweep(folder: Path, url: str, role: str, after: bool, events: int, chunk: int) -> int:
    """Every boundary from the first to the last that a run comes to; how many there were."""

    def play(number: int) -> bool:
        trial = Trial(folder, url, f"n{number}", events, chunk)
        return trial.dies(role, Boundary(number, after))

    passed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while True:
            died = list(pool.map(play, range(passed + 1, passed + AT_ONCE + 1)))
            passed += sum(died)
            if not all(died):
                return passed


WAYS = [(role, after) for role in ROLES for after in (False, True)]
IN_EVERY_RUN = {
    "embedded": [("worker", False), ("master", True), ("produce", False), ("lonely-worker", True)],
    "kafka": [("master", False), ("worker", True)],
}
"""Some dying before and some after; all of them in the long run."""

EVENTS = {"embedded": 48, "kafka": 24}
EVENTS_LONG = {"embedded": 320, "kafka": 96}


def cases(ways: dict[str, list[tuple[str, bool]]]) -> Any:
    """The ways of each bus, as parameters."""
    found = params_with(ways, lambda value: value if isinstance(value, str) else ("after" if value else "before"))
    return pytest.mark.parametrize(("bus_url", "role", "after"), found, indirect=["bus_url"])


@cases(IN_EVERY_RUN)
def test_a_death_at_any_boundary_loses_nothing_and_repeats_nothing(
    tmp_path: Path, bus_url: str, role: str, after: bool
) -> None:
    events = EVENTS[kind(bus_url)]
    assert sweep(tmp_path, bus_url, role, after, events, chunk=8) >= events // 8


@pytest.mark.long
@pytest.mark.timeout(900)
@cases({"embedded": WAYS, "kafka": WAYS})
def test_a_death_at_any_boundary_of_a_longer_run(tmp_path: Path, bus_url: str, role: str, after: bool) -> None:
    events = EVENTS_LONG[kind(bus_url)]
    assert sweep(tmp_path, bus_url, role, after, events, chunk=8) >= events // 8
