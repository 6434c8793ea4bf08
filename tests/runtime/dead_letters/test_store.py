"""Dead letters on the bus: listed once, sent again once."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import BusError, Output, Partition, Record, Topic
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters import pending, store
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.spec import parse_spec

SPEC = parse_spec({"name": "demo", "data": {"partitions": 2}, "model": {"kind": "poisson", "field": "k"}})
EVENTS, LETTERS = names.topic(SPEC, "events"), names.topic(SPEC, "dead-letters")


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "bus") as opened:
        names.create_topics(SPEC, opened)
        yield opened


def _record(offset: int = 0, partition: int = 0, topic: str = EVENTS, **fields: object) -> Record:
    known: dict[str, object] = {"timestamp": 0, "key": None, "value": b"{bad"}
    return Record(Partition(topic, partition), offset, **{**known, **fields})  # type: ignore[arg-type]


def _events(bus: EmbeddedBus, topic: str = EVENTS) -> list[Record]:
    found = []
    for index, end in bus.ends(topic).items():
        with bus.reader({Partition(topic, index): 0}) as reader:
            while reader.position(Partition(topic, index)) < end:
                found += [record for part in reader.poll(1.0).slices for record in part.records]
    return found


def _bury(bus: EmbeddedBus, *records: Record, reason: str = "why") -> None:
    bus.publish([store.letter_output(SPEC, record, reason) for record in records])


def test_a_letter_is_the_record_byte_for_byte(bus: EmbeddedBus) -> None:
    _bury(bus, _record(5, 1, value=b"\x00\xff", key=b"\x80", headers=(("a", b"1"), ("a", b"2"))))
    (found,) = list(Pending(SPEC, bus))
    assert (found.topic, found.partition, found.offset, found.reason) == (EVENTS, 1, 5, "why")
    assert (found.value, found.source_key, found.headers) == (b"\x00\xff", b"\x80", (("a", b"1"), ("a", b"2")))


def test_pending_has_every_source_once_and_in_order(bus: EmbeddedBus) -> None:
    _bury(bus, _record(7, 1), _record(3), _record(20), _record(3))
    _bury(bus, _record(3), reason="later")
    found = list(Pending(SPEC, bus))
    assert [(letter.partition, letter.offset) for letter in found] == [(0, 3), (0, 20), (1, 7)]
    assert found[0].reason == "later"


def test_a_record_that_streaminfer_did_not_write_is_passed_over(bus: EmbeddedBus) -> None:
    bus.publish([Output(LETTERS, b"x", b"somebody's")])
    _bury(bus, _record(1))
    assert len(list(Pending(SPEC, bus))) == 1


def test_retry_sends_each_once_with_key_and_headers_to_its_partition(bus: EmbeddedBus) -> None:
    headers = (("h", b"\xff"), ("streaminfer-key", b"their own"))
    _bury(
        bus, _record(5, 1, value=b"a", key=b"k", headers=headers), _record(2, 0, value=None), _record(3, 0, value=b"")
    )
    assert list(store.retry(SPEC, bus, list(Pending(SPEC, bus)))) == [3]
    sent = [(r.partition.index, r.value, r.key, r.headers) for r in _events(bus)]
    assert sent == [(0, None, None, ()), (0, b"", None, ()), (1, b"a", b"k", headers)]
    assert list(Pending(SPEC, bus)) == []
    assert list(store.retry(SPEC, bus, list(Pending(SPEC, bus)))) == []
    assert len(_events(bus)) == 3


def test_a_letter_that_was_sent_again_is_still_there(bus: EmbeddedBus) -> None:
    _bury(bus, _record(5))
    list(store.retry(SPEC, bus, list(Pending(SPEC, bus))))
    keys = [record.key for record in _events(bus, LETTERS)]
    assert keys == [b"demo.events/0/5", b"retried/demo.events/0/5"]
    bus.compact(LETTERS)
    assert list(Pending(SPEC, bus)) == []


def test_written_again_after_its_retry_it_stays_retried(bus: EmbeddedBus) -> None:
    """A worker that starts over writes the letter again; the event was sent again all the same."""
    _bury(bus, _record(5))
    list(store.retry(SPEC, bus, list(Pending(SPEC, bus))))
    _bury(bus, _record(5))
    assert list(Pending(SPEC, bus)) == []


def test_only_data_events_are_sent_again(bus: EmbeddedBus) -> None:
    increments = names.topic(SPEC, "increments")
    _bury(bus, _record(5, topic=increments), _record(6))
    assert list(store.retry(SPEC, bus, list(Pending(SPEC, bus)))) == [1]
    assert [letter.topic for letter in list(Pending(SPEC, bus))] == [increments]


def test_an_interrupted_retry_goes_on_where_it_stopped(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RETRY_BATCH", 2)
    _bury(bus, *(_record(i, value=b"%d" % i) for i in range(5)))
    running = store.retry(SPEC, bus, list(Pending(SPEC, bus)))
    assert next(running) == 2
    running.close()  # type: ignore[attr-defined]
    assert [letter.offset for letter in list(Pending(SPEC, bus))] == [2, 3, 4]
    assert list(store.retry(SPEC, bus, list(Pending(SPEC, bus)))) == [2, 1]
    assert [record.value for record in _events(bus)] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_letter_with_a_part_of_its_record_is_not_sent_again(bus: EmbeddedBus) -> None:
    _bury(bus, _record(5, value=b"x" * (3 << 20)), _record(6))
    assert list(store.retry(SPEC, bus, list(Pending(SPEC, bus)))) == [1]
    assert [(letter.offset, letter.full_length) for letter in list(Pending(SPEC, bus))] == [(5, 3 << 20)]


def test_nothing_is_sent_again_to_somebody_elses_topic(bus: EmbeddedBus) -> None:
    spec = parse_spec({"name": "demo", "data": {"topic": "orders"}, "model": {"kind": "poisson", "field": "k"}})
    bus.create([Topic("orders", 1)])
    bus.publish([store.letter_output(spec, _record(0, topic="orders"), "why")])
    with pytest.raises(names.NotOurs, match="'orders' is an external topic"):
        list(store.retry(spec, bus, list(Pending(spec, bus))))
    assert bus.ends("orders") == {0: 0}


def test_large_letters_are_written_in_portions(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = bus.publish

    def publish(outputs: Sequence[Output]) -> list[int]:
        sizes.append(len(outputs))
        return real(outputs)

    monkeypatch.setattr(bus, "publish", publish)
    records = [_record(i, value=b"x" * 1_000_000) for i in range(20)]
    store.publish(bus, [store.letter_output(SPEC, record, "why") for record in records])
    store.publish(bus, [])
    assert sizes == [9, 9, 2]
    assert len(list(Pending(SPEC, bus))) == 20


def test_any_number_is_listed_in_bounded_memory(bus: EmbeddedBus) -> None:
    value = bytes(500_000)
    for i in range(0, 200, 20):
        store.publish(bus, [store.letter_output(SPEC, _record(j, value=value), "why") for j in range(i, i + 20)])
    tracemalloc.start()
    with Pending(SPEC, bus) as found:
        assert len(found) == 200
        assert [letter.offset for letter in found if letter.value == value] == list(range(200))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 70e6, "100 MB are listed, and a poll brings up to 16"


def test_a_full_disk_is_told(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    _bury(bus, *(_record(i, value=bytes(1_000_000)) for i in range(3)))
    tables = pending._TABLES.replace("BEGIN", "PRAGMA max_page_count = 300; BEGIN")
    monkeypatch.setattr(pending, "_TABLES", tables)
    with pytest.raises(BusError, match=r"temporary file: database or disk is full.*TMPDIR"):
        Pending(SPEC, bus)
