"""Parquet files as tables: the same records as row by row, and memory that does not grow with the file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaminfer.runtime.loading import readers, sources
from streaminfer.runtime.loading.files import Counted, FileError
from streaminfer.runtime.loading.partitioning import Dealer
from streaminfer.runtime.loading.readers import read_parquet
from streaminfer.runtime.loading.sources import OPENERS, Place, Source
from streaminfer.spec import parse_spec
from streaminfer.wire.events.formats import format_of

N = 40
COUNTS = {"kind": "poisson", "field": "a"}
COIN = {"kind": "bernoulli", "field": "a"}
TIMED = {"inference": {"forget": {"half_life_seconds": 60}}}
SPECS = {
    "json": parse_spec({"name": "demo", "model": COUNTS}),
    "rows": parse_spec({"name": "demo", "data": {"format": "rows"}, "model": COUNTS}),
    "avro": parse_spec({"name": "demo", "data": {"format": "avro"}, "model": COUNTS}),
    "coin": parse_spec({"name": "demo", "data": {"format": "rows"}, "model": COIN}),
    "keys": parse_spec({"name": "demo", "data": {"format": "rows"}, "model": COUNTS, "key": {"field": "b"}}),
    "times": parse_spec({"name": "demo", "data": {"format": "rows", "timestamp": "b"}, "model": COUNTS, **TIMED}),
}
NOON = dt.datetime(2024, 5, 1, 12, 0, 0, 123457)
COLUMNS: Mapping[str, Any] = {
    "doubles": pa.array(np.linspace(-1, 1, N)), "floats": pa.array(np.linspace(-1, 1, N).astype(np.float32)),
    "halves": pa.array(np.linspace(-1, 1, N).astype(np.float16)), "zeros": pa.array([-0.0] * N),
    "long": pa.array([2**53 + 1, -(2**62) - 1] * (N // 2)), "unsigned": pa.array([2**64 - 1] * N, pa.uint64()),
    "small": pa.array([1] * N, pa.int8()), "truths": pa.array([True, False] * (N // 2)),
    "some null": pa.array([1.0, None] * (N // 2)), "nan": pa.array([1.0] * (N - 1) + [float("nan")]),
    "infinite": pa.array([1.0] * (N - 1) + [float("-inf")]), "texts": pa.array(["1", "x"] * (N // 2)),
    "decimals": pa.array([Decimal("1.5")] * N), "dates": pa.array([NOON.date()] * N),
    "moments": pa.array([NOON] * N, pa.timestamp("us")), "nanos": pa.array([NOON] * N, pa.timestamp("ns", "UTC")),
    "seconds": pa.array([NOON.replace(microsecond=0)] * N, pa.timestamp("s")), "lists": pa.array([[1]] * N),
    "many": pa.array(["x"] * N).dictionary_encode(), "nothing": pa.nulls(N),
}  # fmt: skip


def _write(path: Path, columns: Mapping[str, Any]) -> Path:
    pq.write_table(pa.table(dict(columns)), path, row_group_size=15)
    return path


def _open(name: str, stream: Any) -> Source:
    spec = SPECS[name]
    return OPENERS[read_parquet](spec, Counted(stream, "f"), "f", format_of(spec), True)


@pytest.mark.parametrize("name", SPECS)
def test_a_parquet_file_is_what_it_is_row_by_row(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_TABLE", 7)
    spec, made = SPECS[name], format_of(SPECS[name])
    whole = pa.array(range(N))
    for kind, column in COLUMNS.items():
        for columns in ({"a": column, "b": whole}, {"a": whole, "b": column}, {"a": whole, "b": whole, "c": column}):
            with _write(tmp_path / f"{kind}.parquet", columns).open("rb") as stream:
                rows = list(read_parquet(spec, Counted(stream, "f"), "f"))
                runs = [part.run for part in _open(name, stream).parts()]
            dealt = [Dealer(spec).outputs(made, "t", 3, 0, each) for each in (runs, [rows])]
            assert dealt[0] == dealt[1], (kind, list(columns))


@pytest.mark.parametrize("name", ["rows", "json"])
def test_from_every_place_on_the_rest_follows(tmp_path: Path, name: str) -> None:
    """With places of this version and of the one before; a file that has changed is another."""
    path, made = _write(tmp_path / "f.parquet", {"a": pa.array(range(N))}), format_of(SPECS[name])
    other = _write(tmp_path / "g.parquet", {"a": pa.array([7, *range(1, N)])})
    with path.open("rb") as stream, other.open("rb") as changed:
        rows = list(read_parquet(SPECS[name], Counted(stream, "f"), "f"))
        older = sources._Texts()
        for n in range(N + 1):
            for place in (_open(name, stream).place()._replace(rows=n), Place(n, older.hexdigest())):
                source = _open(name, stream)
                assert source.skip(place)
                assert made.encode(*(part.run for part in source.parts())) == made.encode(rows[n:])
                assert source.place().rows == n
                assert not _open(name, changed).skip(place) or (n == 0 and place.size is None)
            if n < N:
                older.add(sources.texts([rows[n]]))


def test_a_row_that_is_too_long_is_told_wherever_its_text_is(tmp_path: Path) -> None:
    texts = pa.array(["x"] * (N - 1) + ["y" * (1 << 20)])
    path = _write(tmp_path / "f.parquet", {"a": pa.array(range(N)), "c": texts})
    rule = f"f: row {N} is an event of more than the 1048576 bytes of a record"
    with path.open("rb") as stream, pytest.raises(FileError, match=rule):
        list(_open("rows", stream).parts())


@pytest.mark.parametrize("name", ["rows", "json"])
def test_rows_that_are_large_are_fewer_at_once(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what the file says of its groups of rows: many long texts at once would fill the memory."""
    monkeypatch.setattr(readers, "_MOST_BYTES", 4000)
    texts = pa.array([f"{i:01000}" for i in range(N)])
    path = _write(tmp_path / "f.parquet", {"a": pa.array(range(N)), "c": texts})
    with path.open("rb") as stream:
        assert [part.n for part in _open(name, stream).parts() if part.n > 4] == []
        source = _open(name, stream)
        assert source.skip(source.place()._replace(rows=7))
        assert sum(part.n for part in source.parts()) == N - 7


def test_numbers_of_a_file_come_as_tables(tmp_path: Path) -> None:
    with _write(tmp_path / "f.parquet", {"a": pa.array(range(N)), "b": COLUMNS["doubles"]}).open("rb") as stream:
        assert {type(part.run) for name in ("rows", "avro") for part in _open(name, stream).parts()} == {np.ndarray}
