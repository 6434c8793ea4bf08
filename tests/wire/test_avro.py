"""The framing: what is refused before and after the body is read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import numpy as np
import pytest

from streaminfer.wire import increments, snapshots
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadBody, BadFrame, WireError
from streaminfer.wire.snapshots import Assembler
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL, VALUES, increment, snapshot

TOPICS = Path(__file__).parents[2] / "topics"
RECORDS = {
    "increments": increments.encode(increment(), 1 << 20)[0],
    "posterior": snapshots.encode(snapshot(), NATURAL, ABOUT, 1 << 20)[0][1],
}
SCHEMAS = {"increments": ("increment.avsc", 1), "posterior": ("snapshot.avsc", 7)}


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
        "schema id 5 is not the 1 of this topic": b"\x00\x00\x00\x00\x05" + record[5:],
        "schema id 4294967295 is not the 1 of this topic": b"\x00\xff\xff\xff\xff" + record[5:],
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
    assert {kind.reason for kind in kinds} == {"undecodable", "bad-frame", "bad-body", "bad-value"}


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
        with pytest.raises(BadFrame, match=f"schema id {earlier} is not the 7 of this topic"):
            Assembler(FINGERPRINT, 3).add(record)


def test_ids_of_another_topic_or_of_nobody_are_refused() -> None:
    ids = Schemas({"increments": 17, "posterior": 18}, {"increments": frozenset({16})})
    for found in (5, 18, 0, 15, 2**32 - 1):
        data = b"\x00" + found.to_bytes(4, "big") + RECORDS["increments"][5:]
        with pytest.raises(BadFrame, match=f"schema id {found} is not the 1 or 16 or 17 of this topic"):
            increments.decode(data, ids)
