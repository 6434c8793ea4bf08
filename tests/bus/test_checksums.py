"""A record of the embedded bus that is not as it was written is told apart, whatever bit of it has changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Partition, Record, Topic, Unreadable
from streaminfer.bus.sqlite.rows import checksums
from streaminfer.bus.sqlite.store import FILE_NAME

T0 = Partition("t", 0)
OUTPUTS = [
    Output("t", b"first", b"k", 0, (("h", b"1"),), 7),
    Output("t", b"second", None, 0),
    Output("t", None, b"gone", 0),
    Output("t", b"", b"", 0, (("h", b""),)),
]


def _read(directory: Path) -> list[Record]:
    with EmbeddedBus(directory) as bus:
        start = bus.starts("t")[0]
        end = bus.ends("t")[0]
        found: list[Record] = []
        with bus.reader({T0: start}) as reader:
            while reader.position(T0) < end:
                found += [record for part in reader.poll(1.0).slices for record in part.records]
    return found


def _written(directory: Path) -> list[Record]:
    with EmbeddedBus(directory) as bus:
        bus.create([Topic("t", 1)])
        bus.publish(OUTPUTS)
    return _read(directory)


def _execute(directory: Path, *statements: str) -> None:
    with closing(sqlite3.connect(directory / FILE_NAME)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_what_was_written_is_read(tmp_path: Path) -> None:
    found = _written(tmp_path)
    assert [(each.key, each.value, each.headers) for each in found] == [
        (each.key, each.value, each.headers) for each in OUTPUTS
    ]
    assert {type(each) for each in found} == {Record}


@pytest.mark.parametrize(
    ("change", "offset"),
    [
        ("value = CAST('girst' AS BLOB)", 0),
        ("key = CAST('j' AS BLOB)", 0),
        ("key = NULL", 0),
        ("timestamp = 6", 0),
        ("timestamp = timestamp + (1 << 40)", 0),
        ("headers = x'00000001680000000130'", 0),
        ("headers = NULL", 0),
        ("value = CAST('sfcond' AS BLOB)", 1),
        ("value = 'second'", 1),
        ("key = CAST('gonf' AS BLOB)", 2),
        ("value = CAST('' AS BLOB), key = CAST('x' AS BLOB)", 3),
        ("checksum = checksum + 1", 1),
    ],
)
def test_a_record_that_has_changed_is_unreadable_and_says_why(tmp_path: Path, change: str, offset: int) -> None:
    before = _written(tmp_path)
    _execute(tmp_path, f"UPDATE log SET {change} WHERE (id & 1099511627775) = {offset}")  # noqa: S608
    after = _read(tmp_path)
    assert isinstance(after[offset], Unreadable)
    assert after[offset].fault.startswith("the file of the bus is damaged: ")
    assert [each for each in after if each.offset != offset] == [each for each in before if each.offset != offset]


def test_every_bit_of_a_record_counts() -> None:
    record = (1_700_000_000_000, b"key", b"\0\0\0\1h\0\0\0\1v", b"value")
    (right,) = checksums(*([each] for each in record))
    for bit in range(64):
        assert checksums([record[0] ^ 1 << bit], *([each] for each in record[1:])) != [right], bit
    for part in (1, 2, 3):
        for bit in range(8 * len(record[part])):  # type: ignore[arg-type]
            other = list(record)
            raw = bytearray(record[part])  # type: ignore[arg-type]
            raw[bit // 8] ^= 1 << bit % 8
            other[part] = bytes(raw)
            assert checksums(*([each] for each in other)) != [right], (part, bit)  # type: ignore[arg-type]


def test_columns_that_are_full_partly_empty_or_empty_give_the_same() -> None:
    rows = [(5, b"a", None, b"x"), (1 << 41, None, b"h", None), (0, b"", b"", b"")]
    together = checksums(*zip(*rows, strict=True))  # type: ignore[arg-type]
    assert together == [checksums(*([each] for each in row))[0] for row in rows]  # type: ignore[arg-type]


def test_a_bus_from_before_checksums_is_read_and_written_on(tmp_path: Path) -> None:
    before = _written(tmp_path)
    _execute(tmp_path, "ALTER TABLE log DROP COLUMN checksum", "PRAGMA user_version = 1")
    assert _read(tmp_path) == before
    with EmbeddedBus(tmp_path) as bus:
        bus.publish([Output("t", b"new", None, 0)])
    assert [each.value for each in _read(tmp_path)] == [*(each.value for each in before), b"new"]
    _execute(tmp_path, "UPDATE log SET value = CAST('old' AS BLOB) WHERE value = CAST('new' AS BLOB)")
    assert isinstance(_read(tmp_path)[-1], Unreadable)
