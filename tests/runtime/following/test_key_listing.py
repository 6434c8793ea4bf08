"""Pages of keys: all keys in their order, whatever the size of a page, and few of them held at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaminfer.bus.protocol import Output, Record
from streaminfer.runtime.following import key_listing
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.key_listing import KeySummary, PageRows, page
from streaminfer.runtime.following.rows import Saw
from streaminfer.wire import snapshots
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.runtime.keyed_streams import BEGIN, run

N = 300


@pytest.fixture
def rig() -> KeyedRig:
    """300 keys in three shards, in no order; key i has i % 3 + 1 events."""
    made = KeyedRig(keyed_spec(partitions=1, key={"field": "city", "shards": 3}, minibatch=10_000, linger_ms=1))
    cities = [f"{i * 7 % N:03d}" for i in range(N)]
    made.send_events([(0, BEGIN, {"city": city, "k": 1}) for city in cities for _ in range(int(city) % 3 + 1)])
    run(made)
    return made


def _all(rig: KeyedRig, limit: int) -> list[KeySummary]:
    found: list[KeySummary] = []
    while some := page(rig.spec, rig.bus, found[-1].key.encode() if found else b"", limit):
        assert len(some) <= limit
        found += some
    return found


@pytest.mark.parametrize("room", [0, 1, 1000])
@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
def test_pages_have_all_keys_in_their_order(
    rig: KeyedRig, monkeypatch: pytest.MonkeyPatch, limit: int, room: int
) -> None:
    monkeypatch.setattr(key_listing, "ROOM", room)
    first = page(rig.spec, rig.bus, b"", limit)
    assert [(each.key, each.n_events) for each in first] == [(f"{i:03d}", i % 3 + 1) for i in range(min(limit, N))]
    if limit > 1:
        assert [each.key for each in _all(rig, limit)] == [f"{i:03d}" for i in range(N)]


def test_keys_that_are_gone_take_no_others_away(rig: KeyedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first keys fill a page, and are gone further on in the log."""
    monkeypatch.setattr(key_listing, "ROOM", 0)
    topic = rig.topic("posterior")
    for shard in range(3):
        there = rig.records("posterior", shard)
        gone = [each.key for each in there if each.key is not None and b"key/0/000" <= each.key < b"key/0/250"]
        rig.bus.publish([Output(topic, None, key, shard) for key in gone])
    assert len(_all(rig, 10)) == N, "they are there until a manifest says that they are gone"
    about = snapshots.About(rig.spec.name, rig.spec.model.kind, "gamma", "svb", "exact")
    for shard in range(3):
        newest = Follower(rig.spec, rig.bus, shard).catch_up()
        assert newest is not None
        after = replace(newest, version=newest.version + 1)
        records = snapshots.encode(after, rig.spec.model.empty(), about, 1 << 20)
        rig.bus.publish([Output(topic, data, key, shard) for key, data in records])
    assert [each.key for each in _all(rig, 10)] == [f"{i:03d}" for i in range(250, N)]


def test_few_keys_are_held(rig: KeyedRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_listing, "ROOM", 3)
    most, take = [], PageRows.take

    def watched(rows: PageRows, record: Record, saw: Saw) -> None:
        take(rows, record, saw)
        most.append(len({*rows.held, *(place.label for place in rows.waiting)}))

    monkeypatch.setattr(PageRows, "take", watched)
    assert len(page(rig.spec, rig.bus, b"", 5)) == 5
    assert max(most) == 2 * (5 + 3)


@pytest.mark.parametrize("value", [b"", b"junk", b"\0\0\0\0\x09junk"])
def test_junk_in_the_place_of_a_row_takes_no_key_away(
    rig: KeyedRig, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = _all(rig, 1000)
    for shard in range(3):
        rig.bus.publish([Output(rig.topic("posterior"), value, b"key/0/007", shard)])
        rig.bus.publish([Output(rig.topic("posterior"), value, b"key/x/007", shard)])
    assert _all(rig, 1000) == before
    assert "cannot be read: " in caplog.text
