"""Topics that somebody else fills, on both buses: read as they are, never written to, and exact all the same."""

from __future__ import annotations

import base64
import json
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output, Partition, Topic
from tests.faults.programs import Program, Programs, document, n_events, wait_for

BUSES = ["embedded", pytest.param("kafka", marks=pytest.mark.xdist_group("kafka"))]


class Place:
    """A bus with a topic `orders` of somebody else, and a spec that reads it."""

    def __init__(self, programs: Programs, url: str, partitions: int = 3, **topic: Any) -> None:
        self.programs, self.url, self.partitions = programs, url, partitions
        self.good: list[int] = []
        self.bad: list[bytes | None] = []
        self.topic = Topic("orders", partitions, **topic)
        with open_bus(url) as bus:
            bus.create([self.topic])
        self.spec = programs.folder / "spec.yaml"
        self.write_spec()

    def write_spec(self, **data: Any) -> None:
        given = {"topic": "orders", "fields": {"k": "order.items"}, **data}
        text = {"name": "reader", "data": given, "model": {"kind": "poisson", "field": "k"}}
        self.spec.write_text(json.dumps({**text, "inference": {"minibatch": 16}}))

    def event(self, count: int) -> bytes:
        """A good event of the owner's own making, remembered."""
        self.good.append(count)
        return json.dumps({"id": len(self.good), "order": {"items": count, "note": None}}).encode()

    def junk(self, value: bytes | None) -> bytes | None:
        """A bad one, remembered."""
        self.bad.append(value)
        return value

    def publish(self, *outputs: Output) -> None:
        with open_bus(self.url) as bus:
            bus.publish(list(outputs))

    def up(self, *more: object) -> Program:
        return self.programs.run("up", self.spec, "--until-idle", "--bus", self.url, *more)

    def letters(self) -> list[dict[str, Any]]:
        return self.programs.run("dead-letters", self.spec, "--json", "--bus", self.url).documents

    def check(self, letters: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """The batch posterior of the good events, and the bad ones byte for byte."""
        found = document(self.spec, self.url)
        assert found["n_events"] == len(self.good)
        assert (found["n_lost"], found["n_rejected"], found["n_dead_lettered"]) == (0, 0, len(self.bad))
        assert found["natural"] == pytest.approx([1 + sum(self.good), 1 + len(self.good)], rel=1e-9)
        listed = self.letters() if letters is None else letters
        assert Counter(value_of(letter) for letter in listed) == Counter(self.bad)
        assert {letter["topic"] for letter in listed} <= {"orders"}
        return found

    def ends(self) -> dict[int, int]:
        with open_bus(self.url) as bus:
            return bus.ends("orders")


def value_of(letter: dict[str, Any]) -> bytes | None:
    return None if letter["value_base64"] is None else base64.b64decode(letter["value_base64"])


@contextmanager
def bus_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if kind == "embedded":
        yield f"embedded:{folder / 'bus'}"
    else:
        yield f"kafka://{request.getfixturevalue('kafka_address')}/t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def place(request: pytest.FixtureRequest, programs: Programs) -> Iterator[Place]:
    kind, options = request.param if isinstance(request.param, tuple) else (request.param, {})
    with bus_of(kind, request, programs.folder) as url:
        yield Place(programs, url, **options)


WRONG = {
    b'{"order": {}}': "k (from order.items): is missing",
    b'{"id": 3}': "k (from order.items): order is missing",
    b'{"order": null}': "k (from order.items): order must be an object",
    b'{"order": [{"items": 3}]}': "k (from order.items): order must be an object",
    b'{"order": {"items": null}}': "k (from order.items): must be a whole number from 0 to 2^53",
    b'{"order": {"items": "3"}}': "k (from order.items): must be a whole number from 0 to 2^53",
    b'{"k": 3}': "k (from order.items): order is missing",
    b"": "not JSON: Expecting value: line 1 column 1 (char 0)",
    b"\x00\x01\xff": "not JSON: 'utf-8' codec can't decode byte 0xff in position 2: invalid start byte",
    None: "not JSON: a tombstone holds no event",
}


@pytest.mark.parametrize("place", BUSES, indirect=True)
def test_records_of_others_are_absorbed_or_buried_with_key_and_headers(place: Place) -> None:
    """Keys, headers, tombstones, empty and wrong values; the log begins beyond 0; partitions are added on the way."""
    place.publish(*(Output("orders", b"old", b"k", i % 3) for i in range(30)))
    with open_bus(place.url) as bus:
        for index in range(3):
            bus.delete_before(Partition("orders", index), 10)
    outputs = [Output("orders", place.event(i % 7), b"key-%d" % i, i % 3, (("h", b"%d" % i),)) for i in range(200)]
    odd = (("trace", b"\xff\x00"), ("trace", b""), ("streaminfer-reason", b"theirs"))
    outputs[50:50] = [Output("orders", place.junk(value), b"\x80key", 1, odd) for value in WRONG]
    place.publish(*outputs)
    place.up("--workers", 2)
    listed = place.letters()
    found = place.check(listed)
    assert {value_of(letter): letter["reason"] for letter in listed} == WRONG
    assert {base64.b64decode(letter["key_base64"]) for letter in listed} == {b"\x80key"}
    kept = [[name, base64.b64encode(data).decode()] for name, data in odd]
    assert all(letter["headers"] == kept and not letter["cut"] for letter in listed)
    assert found["frontier"] == {f"orders-{index}": end for index, end in place.ends().items()}

    running = place.programs.start("up", place.spec, "--bus", place.url)
    wait_for(lambda: n_events(place.spec, place.url) == 200, "the posterior is there")
    with open_bus(place.url) as bus:  # its owner makes it larger
        bus.create([Topic("orders", 5)])
    place.publish(*(Output("orders", place.event(3), partition=i % 5) for i in range(100)))
    wait_for(lambda: n_events(place.spec, place.url) == 300, "new partitions are read", timeout=40)
    assert running.end() == 0, running.err
    assert place.check()["frontier"].keys() == {f"orders-{index}" for index in range(5)}


@pytest.mark.parametrize("place", BUSES, indirect=True)
def test_nothing_is_ever_written_to_somebody_elses_topic(place: Place) -> None:
    """Not made, not grown, not filled, and refused with what to do instead."""
    run, spec, url = place.programs.run, place.spec, ("--bus", place.url)
    place.publish(Output("orders", place.junk(b"bad"), b"k", 0), Output("orders", place.event(1), partition=1))
    place.up()
    before = place.ends()
    data = place.programs.folder / "data.ndjson"
    data.write_text('{"order": {"items": 1}}\n')
    for command in (("produce", spec, data), ("up", spec, "--data", data), ("dead-letters", spec, "--retry")):
        refused = run(*command, *url, code=2)
        assert "data.topic: 'orders' is somebody else's topic, to which streaminfer never writes" in refused.err
    assert "`dead-letters --json` has the bytes of each letter" in refused.err
    assert place.ends() == before

    first, *own = run("topics", spec, "--apply", "--json", *url).documents
    assert (first["topic"], first["partitions"], first["status"]) == ("orders", 3, "somebody else's")
    assert [row["topic"] for row in own] == ["reader.increments", "reader.posterior", "reader.dead-letters"]
    assert {row["status"] for row in own} == {"there"}
    with open_bus(place.url) as bus:
        assert "reader.events" not in bus.topics()
        assert bus.topics()["orders"] == place.topic
    place.check()


@pytest.mark.parametrize("place", BUSES, indirect=True)
def test_a_topic_that_is_not_there(place: Place) -> None:
    """Commands fail at once and say which name on which bus; a service waits until somebody makes it."""
    place.write_spec(topic="ordres")
    for command in (("up", place.spec, "--until-idle"), ("topics", place.spec)):
        failed = place.programs.run(*command, "--bus", place.url, code=1)
    assert "ordres" in failed.out
    assert "missing: somebody else's" in failed.out
    failed = place.programs.run("up", place.spec, "--bus", place.url, code=1)
    assert f"data.topic: there is no topic 'ordres' on {place.url}; it is somebody else's" in failed.err

    services = [place.programs.start("run", name, place.spec, "--bus", place.url) for name in ("master", "svb-worker")]
    wait_for(lambda: all("there is no topic 'ordres'" in each.err for each in services), "services wait")
    assert all(each.alive for each in services)
    with open_bus(place.url) as bus:
        bus.create([Topic("ordres", 2)])
        bus.publish([Output("ordres", place.event(4), partition=i % 2) for i in range(10)])
    wait_for(lambda: n_events(place.spec, place.url) == 10, "services go on")
    assert [each.end() for each in services] == [0, 0]


LARGE = {"max_bytes": 8 << 20}


LARGE_BUSES = [("embedded", LARGE), pytest.param(("kafka", LARGE), marks=pytest.mark.xdist_group("kafka"))]


@pytest.mark.parametrize("place", LARGE_BUSES, indirect=True, ids=["embedded", "kafka"])
def test_records_larger_than_a_dead_letter_are_cut_and_say_so(place: Place) -> None:
    """Reading goes on; what is not kept is told."""
    fits, large = b"x" * 1_500_000, b"y" * 5_000_000
    place.publish(*(Output("orders", place.event(2), partition=0) for _ in range(5)))
    many = tuple((f"h{i}", b"v" * 1000) for i in range(2000))
    place.publish(Output("orders", large, b"k" * 1_000_000, 0, many))
    place.publish(Output("orders", fits, b"f", 0), *(Output("orders", place.event(2), partition=0) for _ in range(5)))
    place.up()
    found = document(place.spec, place.url)
    assert (found["n_events"], found["n_dead_lettered"], found["n_lost"]) == (10, 2, 0)
    cut, whole = place.letters()
    kept = value_of(cut) or b""
    assert (cut["cut"], cut["length"], whole["cut"], value_of(whole)) == (True, 5_000_000, False, fits)
    assert 1_000_000 < len(kept) < 2 << 20
    assert large.startswith(kept)
    assert 0 < len(cut["headers"]) < 2000
    assert "5000000 bytes are more than the 1048576 an event may have" in cut["reason"]
