"""Contract of the bus: real processes that write at the same time, and processes killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streaminfer.bus.protocol import Partition, Topic
from tests.contracts.bus_actors import Actor, shared_out, until
from tests.contracts.bus_harness import PROCESS_HARNESSES, Harness, fixture_over, read_all
from tests.contracts.bus_process import BATCH

harness = fixture_over(PROCESS_HARNESSES)

ROOT = Path(__file__).parents[2]


@contextmanager
def process(verb: str, harness: Harness, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process of bus_process.py, killed with SIGKILL at the end if it still runs."""
    assert harness.url is not None
    command = [sys.executable, "-m", "tests.contracts.bus_process", verb, harness.url, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def read_numbers(child: subprocess.Popen[str], count: int, numbers: set[int]) -> None:
    """The next numbers that a process prints; beside the polls of others, without which it may never get there."""
    assert child.stdout is not None
    for _ in range(count):
        numbers.add(int(child.stdout.readline()))


def test_processes_append_at_the_same_time_and_nothing_is_lost(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    with (
        process("append", harness, "t", "a", "40") as a,
        process("append", harness, "t", "b", "40") as b,
        process("append", harness, "t", "c", "40") as c,
    ):
        texts = [child.communicate(timeout=60)[0] for child in (a, b, c)]
        assert [child.returncode for child in (a, b, c)] == [0, 0, 0]
    acknowledged = {(p, at): value for text in texts for line in text.splitlines() for value, p, at in json.loads(line)}
    records = read_all(bus, "t")
    assert len(records) == 3 * 40 * 25
    assert {(r.partition.index, r.offset): str(r.value or b"", "utf8") for r in records} == acknowledged
    for index in (0, 1):
        here = [str(r.value or b"", "utf8").split() for r in records if r.partition.index == index]
        for name in "abc":
            numbers = [int(number) for who, number in here if who == name]
            assert numbers == sorted(numbers)
            assert len(numbers) == 500


def test_a_reader_beside_writers_sees_each_record_once_and_in_order(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    seen: dict[int, list[int]] = {0: [], 1: []}
    deadline = time.monotonic() + 60
    with (
        process("append", harness, "t", "a", "60") as child,
        bus.reader({Partition("t", i): 0 for i in seen}) as reader,
    ):
        while sum(map(len, seen.values())) < 60 * 25:
            assert time.monotonic() < deadline
            for slice_ in reader.poll(0.5, max_records=100).slices:
                seen[slice_.partition.index] += [int((r.value or b"").split()[1]) for r in slice_.records]
        assert child.wait(60) == 0
    assert seen == {0: list(range(0, 1500, 2)), 1: list(range(1, 1500, 2))}


def test_a_process_killed_in_the_middle_of_commits_leaves_whole_batches(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    acknowledged: list[int] = []
    for turn in range(4):
        with process("commit", harness, "t", str(1000 * turn)) as child:
            assert child.stdout is not None
            acknowledged += [int(child.stdout.readline()) for _ in range(5 + 3 * turn)]
            child.kill()
            acknowledged += [int(line) for line in child.stdout.read().split()]
    counts = Counter(int(record.value or b"") for record in read_all(bus, "t"))
    assert set(counts.values()) == {BATCH}
    assert set(acknowledged) <= set(counts)
    assert len(counts) - len(acknowledged) <= 4, "at most one commit of each process was not acknowledged"
    (position,) = bus.committed("killed").values()
    assert position.offset == int(position.note) == max(counts)


def test_the_partitions_of_a_killed_process_move_on(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 4)])
    actor = Actor(bus, "g", ["t"])
    until(shared_out([actor], 4), [actor])
    with process("join", harness, "t", "g") as child:
        given: set[int] = set()
        reading = threading.Thread(target=read_numbers, args=(child, 2, given))
        reading.start()
        until(lambda: len(actor.owned) == len(given) == 2, [actor])
        reading.join()
        assert given == {0, 1, 2, 3} - {partition.index for partition in actor.owned}
        child.kill()
        child.wait()
    harness.advance(2 * harness.session_s)
    until(shared_out([actor], 4), [actor])
