"""Records that other programs have put on Kafka: codecs, transactions, compaction, and a batch that explodes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaAdminClient, KafkaProducer

from streaminfer.bus.broker.fetching import batches
from streaminfer.bus.broker.topics import Catalog
from streaminfer.bus.protocol import Output, Partition
from tests.faults.buses import kafka
from tests.integration.existing import Place

CODECS = ("gzip", "snappy", "lz4", "zstd")
HEADERS = [("trace", b"\x00\xff"), ("empty", b""), ("none", None)]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with closing(Place(tmp_path, kafka(request, tmp_path))) as made:
        yield made


@pytest.fixture
def orders(place: Place) -> str:
    """The topic as the broker knows it."""
    return f"{place.url.rpartition('/')[2]}.orders"


def python_producer(address: str, **options: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=address, acks="all", metrics_enabled=False, **options)


def c_producer(address: str, **options: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 50, "log_level": 0, **options})


def c_send(producer: confluent_kafka.Producer, topic: str, partition: int, *values: bytes | None) -> None:
    for value in values:
        producer.produce(topic, value, key=b"c", partition=partition, headers=HEADERS)
    assert producer.flush(20) == 0


def test_every_codec_of_two_producers(place: Place, orders: str, kafka_address: str) -> None:
    for codec in CODECS:
        producer = python_producer(kafka_address, compression_type=codec, linger_ms=50)
        for i in range(100):
            value = place.junk(b"junk of " + codec.encode()) if i == 50 else place.event(i % 5)
            producer.send(orders, value, b"k", [("h", b"v")], partition=i % 2)
        producer.flush(20)
        producer.close()
        values = [place.event(i % 3) for i in range(100)]
        values.insert(70, place.junk(b"C junk of " + codec.encode()))  # type: ignore[arg-type]
        c_send(c_producer(kafka_address, **{"compression.type": codec}), orders, 2, *values)
    with place.running() as services:
        place.check(services.until_idle())
    by_c = [letter for letter in place.letters() if (letter.value or b"").startswith(b"C")]
    assert {letter.headers for letter in by_c} == {(("trace", b"\x00\xff"), ("empty", b""), ("none", b""))}


def test_transactions_that_end_well_and_others(place: Place, orders: str, kafka_address: str) -> None:
    """Markers and aborted records are holes: nothing of them is counted, and the frontier reaches the end."""
    python = python_producer(kafka_address, transactional_id=f"{orders}.python", compression_type="lz4")
    python.init_transactions()
    c = c_producer(kafka_address, **{"transactional.id": f"{orders}.c", "compression.type": "zstd"})
    c.init_transactions(20)
    for round_ in range(6):
        keep = round_ % 2 == 0
        python.begin_transaction()
        c.begin_transaction()
        for i in range(20):
            value = place.event(i) if keep else b"aborted"
            python.send(orders, value, partition=i % 2)
            c.produce(orders, place.event(1) if keep else b"aborted", partition=i % 2)
        python.flush(20)
        c.flush(20)
        (python.commit_transaction if keep else python.abort_transaction)()
        (c.commit_transaction if keep else c.abort_transaction)(20)
    python.close()
    with place.running() as services:
        found = services.until_idle()
    place.check(found)
    assert sum(found.frontier.positions.values()) == sum(place.bus.ends("orders").values()) >= 240 + 2 * 12


def test_a_batch_that_explodes_is_one_dead_letter(place: Place, orders: str, kafka_address: str) -> None:
    """70 MB in 70 kB: reading goes on behind it, and its bytes are kept."""
    place.publish(*(Output("orders", place.event(3), partition=0) for _ in range(20)))
    bomb = python_producer(kafka_address, compression_type="gzip", max_request_size=80_000_000)
    place_of_bomb = bomb.send(orders, b"\0" * 70_000_000, partition=0).get(60).offset
    bomb.close()
    place.publish(*(Output("orders", place.event(3), partition=0) for _ in range(20)))
    with place.running() as services:
        found = services.until_idle()
    assert (found.n_events, found.counts.n_dead_lettered, found.counts.n_lost) == (40, 1, 0)
    (letter,) = place.letters()
    assert (letter.offset, letter.is_cut) == (place_of_bomb, False)
    assert 60_000 < len(letter.value or b"") < 200_000
    assert letter.reason.endswith("it expands (gzip) to more than 64 MiB")


def test_batches_that_expand_to_much_together_are_read_in_several_polls(
    place: Place, orders: str, kafka_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on what one poll may expand to, brought down so far that many small batches reach it."""
    monkeypatch.setattr(batches, "MAX_FETCHED", 100_000)
    producer = python_producer(kafka_address, compression_type="zstd")
    for i in range(40):
        producer.send(orders, b"%06d" % i + b" " * 40_000, partition=i % 2).get(20)
    producer.close()
    partitions = [Partition("orders", 0), Partition("orders", 1)]
    found: dict[Partition, list[int]] = {partition: [] for partition in partitions}
    polls = 0
    with place.bus.reader(dict.fromkeys(partitions, 0)) as reader:
        deadline = time.monotonic() + 90
        while any(reader.position(partition) < 20 for partition in partitions):
            polled = reader.poll(1.0).slices
            assert sum(len(part.records) for part in polled) <= 3 + 3
            for part in polled:
                found[part.partition] += [int((record.value or b"")[:6]) for record in part.records]
            polls += 1
            assert time.monotonic() < deadline
    assert found == {partitions[0]: list(range(0, 40, 2)), partitions[1]: list(range(1, 40, 2))}
    assert polls >= 7


def test_reading_asks_for_no_settings(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may only read and describe a topic can have a posterior of it."""
    asked: list[str] = []
    real = Catalog._configs

    def configs(self: Catalog, wanted: Any) -> Any:
        asked.extend(wanted)
        return real(self, wanted)

    place.publish(*(Output("orders", place.event(1), partition=0) for _ in range(20)))
    place.bus.close()
    place.bus = type(place.bus)(*_address(place.url))
    monkeypatch.setattr(Catalog, "_configs", configs)
    with place.running() as services:
        place.check(services.until_idle())
    assert asked
    assert not [name for name in asked if name.endswith(".orders")]


def _address(url: str) -> tuple[Any, ...]:
    from streaminfer.bus.broker.settings import parse_address

    return (parse_address(url.removeprefix("kafka:")),)


@pytest.mark.long
def test_many_large_letters_at_once(place: Place, orders: str, kafka_address: str) -> None:
    """150 MB of junk that a single fetch brings, and events behind it."""
    producer = python_producer(kafka_address, compression_type="zstd", max_request_size=4_000_000)
    for _ in range(50):
        producer.send(orders, b"x" * 3_000_000, partition=0).get(20)
    producer.close()
    place.publish(*(Output("orders", place.event(1), partition=0) for _ in range(50)))
    with place.running() as services:
        found = services.until_idle(timeout=120)
    assert (found.n_events, found.counts.n_dead_lettered, found.counts.n_lost) == (50, 50, 0)
    assert {(letter.full_length, letter.is_cut) for letter in place.letters()} == {(3_000_000, True)}


@pytest.mark.long
def test_a_topic_that_its_owner_compacts(place: Place, orders: str, kafka_address: str) -> None:
    """What compaction removed before it was read is nothing at all: neither lost nor counted."""
    name = orders + "-table"
    admin = KafkaAdminClient(bootstrap_servers=kafka_address)
    often = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
             "max.compaction.lag.ms": "100", "delete.retention.ms": "0"}  # fmt: skip
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1, "configs": often}})
    admin.close()
    producer = c_producer(kafka_address)
    table = Partition("orders-table", 0)
    for i in range(300):
        producer.produce(name, b'{"order": {"items": %d}}' % (i % 4), key=b"%d" % (i % 30))
    producer.flush(20)
    deadline = time.monotonic() + 60
    while len(_records(place, table)) > 40:
        producer.produce(name, b'{"order": {"items": 1}}', key=b"roll")
        producer.flush(20)
        time.sleep(0.5)
        assert time.monotonic() < deadline, "the broker does not compact"
    place.write_spec(topic="orders-table")
    with place.running() as services:
        found = services.until_idle()
    seen = len(_records(place, table))
    assert found.counts.n_lost == found.counts.n_dead_lettered == 0
    assert 30 <= seen <= found.n_events <= 45
    assert found.frontier.positions[0] >= 300


def _records(place: Place, partition: Partition) -> list[Any]:
    end = place.bus.ends(partition.topic)[partition.index]
    found: list[Any] = []
    with place.bus.reader({partition: place.bus.starts(partition.topic)[partition.index]}) as reader:
        while reader.position(partition) < end:
            found += [record for part in reader.poll(1.0).slices for record in part.records]
    return found
