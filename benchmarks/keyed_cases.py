"""The cases with a posterior for each key: a million of them, and the growth with their number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import keyed
from benchmarks.keyed_workload import Keyed
from benchmarks.measure import Aim, Case, Ratio, Samples, rate

MILLION: Final = 1_000_000
MOST_BYTES: Final = 400.0
MOST_RESTORE_S: Final = 30.0

RATE, DICT_RATE = "absorbed", "absorbed by a dict"
MASTER, RESTORED, DICT = "master", "master, restored", "dict of rows"
RESTORE, READ = "restore", "plain read of the partition"
TOPIC = "written by snapshots"
UNITS: Final = {
    RATE: "events/s", DICT_RATE: "events/s",
    MASTER: "bytes/key", RESTORED: "bytes/key", DICT: "bytes/key", TOPIC: "bytes/key",
    RESTORE: "s", READ: "s",
}  # fmt: skip


def many(letter: str, where: str, folder: Path, url: str, keys: int) -> Case:
    """One event for each key. A run takes minutes, so there are two at most.

    What should be is said of a million keys: of few, most of the memory is buffers, as many for any number.
    """
    aims = {MASTER: Aim("<=", MOST_BYTES), RESTORED: Aim("<=", MOST_BYTES), RESTORE: Aim("<=", MOST_RESTORE_S)}
    return Case(
        letter,
        f"{where}, {keys:,} keyed posteriors, format rows, one worker",
        "events/s",
        {"keys": lambda: samples(folder, url, Keyed(keys, keys))},
        [
            Ratio("absorbed, of the dict", RATE, DICT_RATE),
            Ratio("master, of the dict", MASTER, DICT),
            Ratio("restore, of the plain read", RESTORE, READ),
        ],
        aims=aims if keys >= MILLION else None,
        units=UNITS,
        most=2,
    )


def samples(folder: Path, url: str, work: Keyed) -> Samples:
    mine, nothing = keyed.prepare(folder, url, work), keyed.empty(folder, url, work)
    bare = keyed.held(mine, work)
    found = keyed.measure(mine, nothing, work)
    return {
        RATE: found.rate, DICT_RATE: bare.events / bare.seconds,
        MASTER: found.absorbed, RESTORED: found.restored, DICT: bare.bytes / work.keys,
        RESTORE: found.restore_s, READ: found.read_s,
        TOPIC: found.topic,
    }  # fmt: skip


def growth(letter: str, where: str, folder: Path, url: str, events: int) -> Case:
    """The same number of events under more or fewer keys."""

    def run(name: str, keys: int) -> Callable[[], Samples]:
        work = Keyed(events, keys)
        return rate(name, lambda: keyed.absorb(keyed.prepare(folder, url, work), work))

    named = {"1 key": 1, "1,000 keys": 1_000, "100,000 keys": 100_000}
    standard = next(iter(named))
    return Case(
        letter,
        f"{where}, {events:,} keyed events, format rows, one worker: growth",
        "events/s",
        {name: run(name, keys) for name, keys in named.items()},
        [Ratio(f"{name} of {standard}", name, standard) for name in named if name != standard],
        most=2,
    )
