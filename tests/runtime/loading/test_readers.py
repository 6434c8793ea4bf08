"""Parquet and Avro files, and standard input, onto the data topic in each format."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Partition, Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.loading import produce
from streaminfer.runtime.loading.files import MAX_LINE, Counted, FileError
from streaminfer.runtime.loading.produce import Loader, Piped
from streaminfer.runtime.loading.readers import KINDS, read_avro, read_parquet, reader_of
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.events.formats import format_of
from tests.contracts.bus_harness import read_all
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import Faults, SimulatedBus

ROWS = 2500


def spec_of(form: str = "json", **data: Any) -> Spec:
    model = {"kind": "poisson", "field": "k", "exposure": "e"}
    return parse_spec({"name": "demo", "data": {"partitions": 3, "format": form, **data}, "model": model})


SCHEMA: Any = {
    "type": "record", "name": "R",
    "fields": [{"name": "id", "type": "string"}, {"name": "k", "type": "long"}, {"name": "e", "type": "double"}],
}  # fmt: skip
VALUES = [{"id": f"n{i}", "k": i, "e": 0.5 + i} for i in range(ROWS)]


def write(path: Path, values: list[dict[str, Any]] = VALUES) -> Path:
    if path.suffix == ".gz":
        plain = write(path.with_suffix(""), values)
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
        return path
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(values), path, row_group_size=700)
    elif path.suffix == ".avro":
        with path.open("wb") as stream:
            fastavro.writer(stream, SCHEMA, values, codec="deflate", sync_interval=4000)
    elif path.suffix == ".csv":
        lines = [",".join(map(str, row.values())) for row in values]
        path.write_text("\n".join([",".join(values[0]), *lines]) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in values))
    return path


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "bus") as opened:
        names.create_topics(spec_of(), opened)
        yield opened


def loaded(bus: Any, spec: Spec) -> list[list[float]]:
    """The events on the data topic, as the worker would see them; none is bad."""
    records = [record.value for record in read_all(bus, "demo.events")]
    decoded = format_of(spec).decode(records)
    assert decoded.bad == []
    return sorted(decoded.events.numbers.tolist())


EXPECTED = [[i, 0.5 + i] for i in range(ROWS)]


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_in_every_format(bus: EmbeddedBus, tmp_path: Path, kind: str, form: str) -> None:
    spec, path = spec_of(form), write(tmp_path / f"data{kind}")
    progress = list(Loader(spec, bus, path).run())
    assert loaded(bus, spec) == EXPECTED
    assert progress[-1] == (ROWS, path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (".parquet", "rows"),
        (".avro", "avro"),
        (".csv", "rows"),
        (".avro", "json"),
        (".csv.gz", "rows"),
        (".ndjson.gz", "avro"),
    ],
)
def test_interrupted_and_resumed(
    bus: EmbeddedBus, tmp_path: Path, kind: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, path = spec_of(form), write(tmp_path / f"data{kind}")
    monkeypatch.setattr(produce, "BATCH_RECORDS", 1 if form == "rows" else 512)
    for _ in range(2):
        running = Loader(spec, bus, path).run()
        next(running)
        running.close()
    last = Loader(spec, bus, path)
    list(last.run())
    assert last.resumed == 1024
    assert loaded(bus, spec) == EXPECTED


SECOND: list[tuple[dict[str, Any], dict[str, Any], list[Any]]] = [
    ({"kind": "gaussian", "fields": ["price"]}, {}, [[1.5], [2.0], [3.25]]),
    ({"kind": "categorical", "field": "rooms", "categories": ["2", "3"]}, {}, [[0], [1], [0]]),
    ({"kind": "categorical", "field": "zip", "categories": ["01234", "99999"]}, {}, [[0], [1]]),
    ({"kind": "bernoulli", "field": "sold"}, {}, [[1], [0], [1]]),
    ({"kind": "poisson", "field": "rooms"}, {"key": "id"}, [[2, b"7"], [3, b"7"], [2, b"8"]]),
]


@pytest.mark.parametrize(("model", "more", "expected"), SECOND, ids=["number", "category", "text", "truth", "key"])
def test_a_second_spec_reads_other_columns_of_the_topic(
    bus: EmbeddedBus, tmp_path: Path, model: dict[str, Any], more: dict[str, Any], expected: list[Any]
) -> None:
    """What the first spec does not read is on its topic as what it is."""
    text = "k,e,price,rooms,zip,sold,id\n1,1,1.50,2,01234,true,7\n2,1,2.0,3,99999,False,7\n3,1,3.25,2,,TRUE,8\n"
    (tmp_path / "f.csv").write_text(text)
    list(Loader(spec_of(partitions=1), bus, tmp_path / "f.csv").run())
    second = parse_spec({"name": "second", "data": {"topic": "demo.events"}, "model": model, **more})
    found = format_of(second).decode([record.value for record in read_all(bus, "demo.events")])
    assert found.events.n + len(found.bad) == 3
    events, keys = found.events.numbers.tolist(), found.events.keys
    assert (keys is not None) == bool(more)
    if keys is not None:
        events = [[*values, keys.labels[group]] for values, group in zip(events, keys.groups, strict=True)]
    assert sorted(events) == sorted(expected)


def test_rows_go_around_the_partitions_a_record_at_a_time(bus: EmbeddedBus, tmp_path: Path) -> None:
    list(Loader(spec_of("rows"), bus, write(tmp_path / "data.csv")).run())
    assert list(bus.ends("demo.events").values()) == [2, 2, 1]


def test_a_rate_makes_small_commits(bus: EmbeddedBus, tmp_path: Path) -> None:
    steps = [step.rows for step in Loader(spec_of("rows"), bus, write(tmp_path / "data.csv"), batch_rows=1000).run()]
    assert steps == [1000, 2000, 2500, 2500]


def _rows(reader: Any, path: Path, spec: Spec | None = None) -> list[Any]:
    with path.open("rb") as stream:
        return [json.loads(row) for row in reader(spec or spec_of(), Counted(stream, "f"), "f")]


def test_values_that_json_does_not_have(tmp_path: Path) -> None:
    at = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    row = {"k": 1, "e": Decimal("0.25"), "at": at, "day": at.date(), "raw": b"a\xff", "in": {"x": [1, None]}, "b": True}
    assert _rows(read_parquet, write(tmp_path / "f.parquet", [row])) == [
        {"k": 1, "e": 0.25, "at": "2024-05-06T07:08:09+00:00", "day": "2024-05-06", "raw": "a\xff",
         "in": {"x": [1, None]}, "b": True}
    ]  # fmt: skip


def test_columns_that_the_model_does_not_read_keep_their_types(tmp_path: Path) -> None:
    row = {"k": 1, "e": 0.5, "zip": "01234", "code": "7", "n": 2**60, "x": 1.5, "b": False, "none": None}
    assert _rows(read_parquet, write(tmp_path / "f.parquet", [row])) == [row]
    types = {"zip": "string", "code": "string", "n": "long", "x": "double", "b": "boolean", "none": ["null", "int"]}
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"][1:], *({"name": n, "type": t} for n, t in types.items())]}
    with (tmp_path / "f.avro").open("wb") as stream:
        fastavro.writer(stream, schema, [row])
    assert _rows(read_avro, tmp_path / "f.avro") == [row]


def test_nested_columns_are_reached_by_paths(bus: EmbeddedBus, tmp_path: Path) -> None:
    spec = spec_of("rows", fields={"k": "a.n"})
    list(Loader(spec, bus, write(tmp_path / "f.parquet", [{"a": {"n": 7}, "e": 2.0}])).run())
    assert loaded(bus, spec) == [[7, 2]]


@pytest.mark.parametrize(("reader", "ending"), [(read_parquet, ".parquet"), (read_avro, ".avro")])
def test_files_that_cannot_be_read(reader: Any, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"f{ending}"
    kind = "Parquet" if ending == ".parquet" else "Avro"
    for junk in (b"", b"PAR1", b"Obj\x01", b"k,e\n1,2\n", bytes(200)):
        path.write_bytes(junk)
        with pytest.raises(FileError, match=f"f: is not an? {kind} file that can be read: "):
            _rows(reader, path)
    write(path)
    missing = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "K"}})
    with pytest.raises(FileError) as caught:
        _rows(reader, path, missing)
    assert str(caught.value) == (
        "f: has no column 'K', which the model reads; did you mean 'k'? (its columns, separated by commas: id, k, e)"
    )


def test_a_damaged_avro_file_is_told_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "f.avro")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileError, match=r"f: cannot be read after record \d+: "):
        _rows(read_avro, path)


def test_a_recursive_avro_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    schema: Any = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    with (tmp_path / "f.avro").open("wb") as stream:
        fastavro.writer(stream, schema, [{"next": None}])
    with pytest.raises(FileError, match="f: has a schema that cannot be used: is recursive: a type holds itself"):
        _rows(read_avro, tmp_path / "f.avro")


def test_a_row_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", [{"k": 1, "e": 1.0, "text": ""}, {"k": 1, "e": 1.0, "text": "x" * MAX_LINE}])
    with pytest.raises(FileError, match="f: row 2 is an event of more than the 1048576 bytes of a record"):
        _rows(read_parquet, path)


def test_without_pyarrow_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError) as caught:
        _rows(reader_of(path), path)
    assert (
        str(caught.value) == "f: Parquet needs pyarrow: pip install pyarrow, or '.[parquet]' in a clone of streaminfer"
    )


def test_columns_that_only_the_schema_knows_are_typed_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CSV has texts; what Avro says is a number is written as one, and empty as null."""
    monkeypatch.setenv("STREAMINFER_SPEC_FILES", "anywhere")
    more = [{"name": "n", "type": ["null", "int"]}, {"name": "b", "type": "boolean"}]
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"], *more]}
    (tmp_path / "s.avsc").write_text(json.dumps(schema))
    spec = spec_of("avro", schema=str(tmp_path / "s.avsc"))
    rows = KINDS[".csv"](spec, Counted(io.BytesIO(b"id,k,e,n,b\n7,1,2,3,true\n8,1,2,,False\n"), "f"), "f")
    records = format_of(spec).encode(list(rows))
    read = [
        fastavro.schemaless_reader(io.BytesIO(record[5:]), fastavro.parse_schema(schema), None) for record in records
    ]
    assert read == [
        {"id": "7", "k": 1, "e": 2.0, "n": 3, "b": True},
        {"id": "8", "k": 1, "e": 2.0, "n": None, "b": False},
    ]


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_standard_input(bus: EmbeddedBus, tmp_path: Path, kind: str) -> None:
    stream = io.BytesIO(write(tmp_path / f"data.{kind}").read_bytes())
    steps = list(Piped(spec_of("rows"), bus, stream, kind, batch_rows=1000).run())
    assert [(step.rows, step.bytes_total) for step in steps] == [(1000, 0), (2000, 0), (2500, 0), (2500, 0)]
    assert loaded(bus, spec_of("rows")) == EXPECTED


@pytest.mark.parametrize("when", ["before", "after"])
def test_standard_input_repeats_nothing_when_the_bus_is_away(when: str) -> None:
    """A commit that did not happen is done again, one whose answer was lost is not."""

    class Away(Faults):
        commits = 0

        def _commit(self, operation: str, moment: str) -> None:
            if operation == "commit" and moment == when:
                self.commits += 1
                if self.commits % 2:
                    raise Unavailable("no answer")

        def before(self, operation: str) -> None:
            self._commit(operation, "before")

        def after(self, operation: str) -> None:
            self._commit(operation, "after")

    broker = Broker(Clock())
    bus, spec = SimulatedBus(broker, Away()), spec_of()
    names.create_topics(spec, bus)
    stream = io.BytesIO(b"".join(b'{"k":%d,"e":1}\n' % i for i in range(10)))
    list(Piped(spec, bus, stream, "ndjson", batch_rows=3).run())
    found = [json.loads(r.value or b"")["k"] for i in range(3) for r in broker.log(Partition("demo.events", i)).records]
    assert sorted(found) == list(range(10))
