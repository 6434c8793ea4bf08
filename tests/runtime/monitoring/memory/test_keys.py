"""The index of keys: what a reader sees is a key as of one manifest, and a million of them take little."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.monitoring.memory import keys as module
from streaminfer.runtime.monitoring.memory.filling import Filler
from streaminfer.runtime.monitoring.memory.keys import Building, KeyIndex
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.wire import key_records
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.runtime.monitoring.memory import many_keys

ROOT = Path(__file__).parents[4]
Hold = Callable[[KeyedRig], "Held"]


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Makes memories, and closes them at the end."""
    with ExitStack() as stack:

        def made(rig: KeyedRig) -> Held:
            held = Held(rig)
            stack.callback(held.filler.close)
            return held

        yield made


class Held:
    """A memory that follows a rig."""

    def __init__(self, rig: KeyedRig) -> None:
        self.rig, self.memory = rig, Memory(rig.spec, "monitor-0", rig.clock)
        self.filler = Filler(rig.spec, rig.bus, self.memory, clock=rig.clock)

    def poll(self) -> KeyIndex:
        for _ in range(4):
            self.filler.poll(0.0)
            self.rig.clock.advance(1.0)
        assert self.memory.keys is not None
        return self.memory.keys

    def check(self) -> None:
        """Every key is what a reader of the topic has, and so is the listing."""
        index, connection = self.poll(), Connection(self.rig.bus)
        listed = connection.keys(self.rig.spec, limit=1000)
        assert index.page("", 1000) == listed
        assert index.page(listed[0].key, 2) == listed[1:3]
        for each in listed:
            found, expected = index.find(each.key), connection.snapshot(self.rig.spec, each.key)
            assert found is not None
            assert expected is not None
            assert found.to_json() == expected.to_json()
        assert (index.find("nobody") is None) == (connection.snapshot(self.rig.spec, "nobody") is None)


@pytest.mark.parametrize("portion", [1, 3, 10_000])
@pytest.mark.parametrize(
    "key",
    [
        {"field": "city"},
        {"field": "city", "shards": 3},
        {"field": "city", "default": "pooled"},
    ],
    ids=["plain", "shards", "pooled"],
)
@pytest.mark.parametrize("forget", [None, {"half_life_events": 5}], ids=["all", "forgetting"])
def test_keys_are_what_a_reader_of_the_topic_has(
    key: dict[str, object],
    forget: dict[str, float] | None,
    portion: int,
    monkeypatch: pytest.MonkeyPatch,
    hold: Hold,
) -> None:
    """Also rows of several clocks, and portions that end within a snapshot."""
    if forget is not None and key.get("default") == "pooled":
        forget = None
    monkeypatch.setattr(module, "PORTION", portion)
    rig = KeyedRig(keyed_spec(key=key, **({} if forget is None else {"forget": forget})))
    services = [rig.worker(), *([rig.master()] if rig.spec.shards == 1 else [rig.master() for _ in range(3)])]
    held: Held | None = None
    for step in range(4):
        sent = [(i % 2, 1000 * step, {"k": i + step, "city": f"c{i % (3 + step)}"}) for i in range(12)]
        rig.send_events(sent)
        rig.fill()
        rig.run(*services, rounds=20)
        held = hold(rig) if held is None else held
        held.check()
    hold(rig).check()


def test_keys_that_are_dropped_are_gone(hold: Hold) -> None:
    rig = KeyedRig(keyed_spec(key={"field": "city", "expire_after": 3600}, partitions=1))
    services = (rig.worker(), rig.master())
    rig.send_events([(0, 0, {"k": 1, "city": city}) for city in ("a", "b", "c", "d")])
    rig.run(*services)
    held = hold(rig)
    assert [each.key for each in held.poll().page("", 10)] == ["a", "b", "c", "d"]
    rig.send_events([(0, 8_000_000, {"k": 1, "city": city}) for city in ("a", "x", "y", "z")])
    rig.run(*services, rounds=30)
    held.check()
    assert "b" not in [each.key for each in held.poll().page("", 10)]


def test_until_the_end_is_reached_nothing_is_told(tmp_path: Path) -> None:
    spec = many_keys.spec_of()
    with open_bus(f"embedded:{tmp_path / 'bus'}") as bus:
        names.create_topics(spec, bus)
        many_keys.publish(bus, spec, 30)
        topic = names.topic(spec, "posterior")
        bus.publish([Output(topic, b"junk", key_records.record_key(b"7", 0), 0)])
        memory = Memory(spec, "monitor-0")
        filler = Filler(spec, bus, memory)
        assert memory.keys is not None
        with pytest.raises(Building):
            memory.keys.find("7")
        with pytest.raises(Building):
            memory.keys.page("", 3)
        filler.poll(0.0)
        assert memory.reading == (32, 32)
        found = memory.keys.find("7")
        assert found is not None
        assert float(found.mean["rate"]) == 4.0, "junk takes nothing away"
        filler.close()


def test_a_reader_sees_a_key_as_of_one_manifest_while_snapshots_are_written(tmp_path: Path) -> None:
    """Rows and their manifest are one transaction: a version is never newer than the manifest it is shown with."""
    spec = many_keys.spec_of()
    with open_bus(f"embedded:{tmp_path / 'bus'}") as bus:
        names.create_topics(spec, bus)
        many_keys.publish(bus, spec, 50)
        memory = Memory(spec, "monitor-0")
        filler = Filler(spec, bus, memory)
        while memory.keys is None or not memory.keys.complete:
            filler.poll(0.0)
        index, seen, stop = memory.keys, list[tuple[int, int]](), threading.Event()

        def ask() -> None:
            while not stop.is_set():
                found = index.find("7")
                assert found is not None
                seen.append((found.version, found.snapshot.created_at))

        asking = threading.Thread(target=ask)
        asking.start()
        for version in range(2, 12):
            many_keys.publish(bus, spec, 50, version)
            filler.poll(0.0)
        stop.set()
        asking.join()
        assert seen[-1][0] >= 1
        assert all(version == created for version, created in seen)
        filler.close()


def measured(url: str, n: int) -> tuple[float, float, float, float]:
    command = [sys.executable, "-m", "tests.runtime.monitoring.memory.many_keys", url, str(n)]
    done = subprocess.run(command, text=True, capture_output=True, check=True, cwd=ROOT, env=dict(os.environ))
    seconds, megabytes, p99, work = map(float, done.stdout.split())
    print(f"\n{n:,} keys: {seconds:.1f} s, {megabytes:.0f} MB, p99 {p99:.2f} ms, {work:.2f} ms of them work")
    return seconds, megabytes, p99, work


@pytest.mark.parametrize(
    "n", [20_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(900)])], ids=["few", "million"]
)
def test_what_an_index_costs(n: int, tmp_path: Path) -> None:
    url, spec = f"embedded:{tmp_path / 'bus'}", many_keys.spec_of()
    with open_bus(url) as bus:
        names.create_topics(spec, bus)
        many_keys.publish(bus, spec, n)
    seconds, megabytes, p99, work = measured(url, n)
    assert seconds <= 60
    assert megabytes <= 100
    assert work <= 5
    assert p99 <= 20 or n < 1_000_000, "in the long run nothing else is at work"
