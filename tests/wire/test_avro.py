"""The framing: what is refused before and after the body is read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import numpy as np
import pytest

from streaminfer.wire import increments, snapshots
from streaminfer.wire.avro import DECLARED, Schemas, declared_ids
from streaminfer.wire.errors import BadBody, BadFrame, UnknownSchema, WireError
from streaminfer.wire.snapshots import Assembler
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL, VALUES, increment, snapshot

TOPICS = Path(__file__).parents[2] / "topics"
RECORDS = {
    "increments": increments.encode(increment(), 1 << 20)[0],
    "posterior": snapshots.encode(snapshot(), NATURAL, ABOUT, 1 << 20)[0][1],
}
SCHEMAS = {"increments": ("increment.avsc", 8), "posterior": ("snapshot.avsc", 17)}


@pytest.mark.parametrize("topic", RECORDS)
def test_any_reader_of_avro_reads_the_same_after_five_bytes(topic: str) -> None:
    file, schema_id = SCHEMAS[topic]
    record = RECORDS[topic]
    assert record[:5] == b"\x00" + schema_id.to_bytes(4, "big")
    body = io.BytesIO(record[5:])
    value = fastavro.schemaless_reader(body, json.loads((TOPICS / file).read_text()), None)
    assert body.read() == b""
    assert value == DECLARED.decode(topic, record)


def test_numbers_are_little_endian_float64() -> None:
    value = DECLARED.decode("increments", RECORDS["increments"])
    assert value["statistics"] == VALUES.astype("<f8").tobytes()
    payload = DECLARED.decode("posterior", RECORDS["posterior"])["payload"]
    assert np.frombuffer(payload, "<f8").tolist() == [*VALUES, *NATURAL]


@pytest.mark.parametrize("topic", RECORDS)
def test_a_record_cut_anywhere_is_refused(topic: str) -> None:
    record = RECORDS[topic]
    for length in range(len(record)):
        with pytest.raises(BadFrame if length < 5 else BadBody):
            DECLARED.decode(topic, record[:length])


@pytest.mark.parametrize("topic", RECORDS)
def test_bytes_left_over_are_refused(topic: str) -> None:
    for extra in (b"\x00", RECORDS[topic]):
        with pytest.raises(BadBody, match=f"{len(extra)} bytes are left over after the record"):
            DECLARED.decode(topic, RECORDS[topic] + extra)


def test_frames_that_are_not_ours() -> None:
    record = RECORDS["increments"]
    cases = {
        "a tombstone holds no value": None,
        "0 bytes are too few for the five of the framing": b"",
        "4 bytes are too few for the five of the framing": record[:4],
        "the first byte is 0x01, not the 0x00 of the Confluent framing": b"\x01" + record[1:],
        "the first byte is 0xff, not the 0x00 of the Confluent framing": b"\xff" + record[1:],
        "schema id 5 is not the 1 or 8 of this topic": b"\x00\x00\x00\x00\x05" + record[5:],
        "schema id 4294967295 is not the 1 or 8 of this topic": b"\x00\xff\xff\xff\xff" + record[5:],
        "1048577 bytes are more than the 1048576 a record may have": record + bytes((1 << 20) + 1 - len(record)),
    }
    for text, data in cases.items():
        with pytest.raises(BadFrame) as caught:
            DECLARED.decode("increments", data)
        assert str(caught.value) == text
        assert caught.value.reason == "bad-frame"


def test_a_topic_without_schema_has_no_records_of_this_kind() -> None:
    with pytest.raises(LookupError, match="topic events has no schema"):
        DECLARED.encode("events", {})


def test_every_reason_is_a_word_of_its_own() -> None:
    kinds = {WireError, *WireError.__subclasses__()}
    assert {kind.reason for kind in kinds} == {"undecodable", "bad-frame", "bad-body", "bad-value", "damaged"}


def test_ids_of_a_registry_are_written_and_read_beside_the_declared_ones() -> None:
    ids = Schemas({"increments": 17}, {"posterior": frozenset({18, 70_000})})
    written = increments.encode(increment(), 1 << 20, ids)[0]
    declared = RECORDS["increments"]
    assert written == b"\x00\x00\x00\x00\x11" + declared[5:]
    assert increments.decode(written, ids) == increments.decode(declared, ids) == increments.decode(declared)
    assert snapshots.encode(snapshot(), NATURAL, ABOUT, 1 << 20, ids)[0][1] == RECORDS["posterior"]
    for earlier in (18, 70_000):
        record = b"\x00" + earlier.to_bytes(4, "big") + RECORDS["posterior"][5:]
        assert Assembler(FINGERPRINT, 3, ids).add(record) is not None
        with pytest.raises(BadFrame, match=f"schema id {earlier} is not the 7 or 9 or 12 or 17 of this topic"):
            Assembler(FINGERPRINT, 3).add(record)


OLDER = {
    (
        "increments",
        1,
    ): "0000000001203031323334353637383961626364656610776f726b65722d311664656d6f2e6576656e747304000e18060202"
    "080000000000000ac0000230000000000000f83f00000000000002c059f3f8c21f6ea501",
    (
        "posterior",
        7,
    ): "00000000070c0050000000000000f83f00000000000002c059f3f8c21f6ea501000000000000084000000000000010400208"
    "64656d6f20303132333435363738396162636465660e706f6973736f6e0a67616d6d61067376620a6578616374f6a1abfef9"
    "622ac801020406080a00000000000029c0040400140101010680808080804001010100020c000600000000000000000000",
    (
        "posterior",
        9,
    ): "00000000090c0050000000000000f83f00000000000002c059f3f8c21f6ea501000000000000084000000000000010400208"
    "64656d6f20303132333435363738396162636465660e706f6973736f6e0a67616d6d61067376620a6578616374f6a1abfef9"
    "622ac801020406080a00000000000029c00404001401010100068080808080400101010000020c0006000000000000000000000000",
}
"""What versions before n_unconverged, and before sampling, wrote of the same values."""


@pytest.mark.parametrize(("topic", "number"), OLDER)
def test_records_of_older_versions_are_read(topic: str, number: int) -> None:
    """By their declared ids, by ids of a registry that stand for them, and by ids of which only the topic is known."""
    older, wanted = bytes.fromhex(OLDER[topic, number]), DECLARED.decode(topic, RECORDS[topic])
    assert older[4] == number
    assert DECLARED.decode(topic, older) == wanted
    renamed = b"\x00\x00\x00\x00\x63" + older[5:]
    assert Schemas(aliases={topic: {99: older[4]}}).decode(topic, renamed) == wanted
    assert Schemas(earlier={topic: frozenset({99})}).decode(topic, renamed) == wanted
    with pytest.raises(BadFrame):
        DECLARED.decode(topic, renamed)
    with pytest.raises(BadBody):
        Schemas(earlier={topic: frozenset({99})}).decode(topic, renamed[:-1])


def test_ids_of_another_topic_or_of_nobody_are_refused() -> None:
    ids = Schemas({"increments": 17, "posterior": 18}, {"increments": frozenset({16})})
    for found in (5, 18, 0, 15, 2**32 - 1):
        data = b"\x00" + found.to_bytes(4, "big") + RECORDS["increments"][5:]
        with pytest.raises(BadFrame, match=f"schema id {found} is not the 1 or 8 or 16 or 17 of this topic"):
            increments.decode(data, ids)


@pytest.mark.parametrize(
    ("topic", "number"), [("increments", 8), ("increments", 1), ("posterior", 12), ("posterior", 9), ("posterior", 7)]
)
def test_a_record_of_any_version_that_is_cut_is_told_in_words(topic: str, number: int) -> None:
    with pytest.raises(BadBody, match=r"^the record ends too early for its schema$"):
        DECLARED.decode(topic, b"\0" + number.to_bytes(4, "big") + b"\2")


def test_an_id_that_no_schema_has_is_told_apart_from_one_of_another_topic() -> None:
    for unknown in (max(declared_ids()) + 1, 1000, 1 << 30):
        with pytest.raises(UnknownSchema, match=f"^schema id {unknown} is not the 7 or 9 or 12 or 17 of this topic$"):
            DECLARED.decode("posterior", b"\0" + unknown.to_bytes(4, "big") + b"any")
    for other in (0, *declared_ids() - DECLARED.ids_of("posterior")):
        with pytest.raises(BadFrame) as caught:
            DECLARED.decode("posterior", b"\0" + other.to_bytes(4, "big") + b"any")
        assert type(caught.value) is BadFrame
