"""External topics, on both buses: read as they are, never written to, and exact all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from streaminfer import fit, parse_spec
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Partition, Topic
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from tests.faults import answers
from tests.integration.existing import Place, Running


@pytest.fixture
def place(bus_url: str, tmp_path: Path) -> Iterator[Place]:
    """On every bus in turn; the topic takes records that are larger than ours may be."""
    with closing(Place(tmp_path, bus_url, max_bytes=8 << 20)) as made:
        yield made


WRONG = {
    b'{"order": {}}': "k (from order.items): is missing",
    b'{"id": 3}': "k (from order.items): order is missing",
    b'{"order": null}': "k (from order.items): order must be an object",
    b'{"order": [{"items": 3}]}': "k (from order.items): order must be an object",
    b'{"order": {"items": null}}': "k (from order.items): is null, must be a whole number from 0 to 2^53",
    b'{"order": {"items": "3"}}': "k (from order.items): must be a whole number from 0 to 2^53 (got '3')",
    b'{"k": 3}': "k (from order.items): order is missing",
    b"": "not JSON: Expecting value: line 1 column 1 (char 0)",
    b"\x00\x01\xff": "not JSON: 'utf-8' codec can't decode byte 0xff in position 2: invalid start byte",
    None: "not JSON: a tombstone holds no event",
}


def test_records_of_others_are_absorbed_or_buried_with_key_and_headers(place: Place) -> None:
    """Keys, headers, tombstones, empty and wrong values; the log begins beyond 0; its owner adds partitions."""
    place.publish(*(Output("orders", b"old", b"k", i % 3) for i in range(30)))
    for index in range(3):
        place.bus.delete_before(Partition("orders", index), 10)
    outputs = [Output("orders", place.event(i % 7), b"key-%d" % i, i % 3, (("h", b"%d" % i),)) for i in range(200)]
    odd = (("trace", b"\xff\x00"), ("trace", b""), ("streaminfer-reason", b"theirs"))
    outputs[50:50] = [Output("orders", place.junk(value), b"\x80key", 1, odd) for value in WRONG]
    place.publish(*outputs)
    with place.running() as services:
        place.check(services.until_idle())
        buried = place.letters()
        assert {letter.value: letter.reason for letter in buried} == WRONG
        assert {(letter.source_key, letter.headers, letter.is_cut) for letter in buried} == {(b"\x80key", odd, False)}

        place.bus.create([replace(place.topic, partitions=5)])
        place.publish(*(Output("orders", place.event(3), partition=i % 5) for i in range(100)))
        found = services.until_idle()
    place.check(found)
    ends = place.bus.ends("orders")
    assert PosteriorSnapshot(place.spec, found).frontier == {f"orders-{index}": ends[index] for index in range(5)}


def test_records_larger_than_a_dead_letter_are_cut_and_say_so(place: Place) -> None:
    """Reading goes on; what is not kept is told."""
    fits, large = b"x" * 1_500_000, b"y" * 5_000_000
    many = tuple((f"h{i}", b"v" * 1000) for i in range(1000))
    place.publish(*(Output("orders", place.event(2), partition=0) for _ in range(5)))
    place.publish(Output("orders", large, b"k" * 1_000_000, 0, many))
    place.publish(Output("orders", fits, b"f", 0), *(Output("orders", place.event(2), partition=0) for _ in range(5)))
    with place.running() as services:
        found = services.until_idle()
    assert (found.n_events, found.counts.n_dead_lettered, found.counts.n_lost) == (10, 2, 0)
    cut, whole = place.letters()
    kept = cut.value or b""
    assert (cut.is_cut, cut.full_length, whole.is_cut, whole.value) == (True, 5_000_000, False, fits)
    assert 1_000_000 < len(kept) < 2 << 20
    assert large.startswith(kept)
    assert 0 < len(cut.headers) < 1000
    assert "5000000 bytes are more than the 1048576 an event may have" in cut.reason


def test_every_field_may_be_elsewhere(tmp_path: Path) -> None:
    """A model of many fields, some nested, some not, two in one place: the answer of textbook formulas."""
    case = answers.linear_regression(400)
    spec = parse_spec(
        {
            "name": "reader",
            "data": {"topic": "orders", "fields": {"a": "x.y.a", "t": "x.t"}},
            "model": case.model,
        }
    )
    rows = [(float(a), float(b), float(t)) for a, b, t in case.rows]
    events = [{"x": {"y": {"a": a}, "t": t}, "b": b, "a": "not this one"} for a, b, t in rows]
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("orders", 2)])
        bus.publish([Output("orders", json.dumps(event).encode(), partition=i % 2) for i, event in enumerate(events)])
        services = Running(spec, bus)
        case.check(PosteriorSnapshot(spec, services.until_idle()).to_json())
        services.close()
    case.check(fit(spec, events).to_json())
