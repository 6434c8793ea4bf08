"""Keys in every data format, and the partitions that `produce` sends their events to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from streaminfer.bus.partitioner import partition_of
from streaminfer.runtime.loading.files import Counted, read_csv
from streaminfer.runtime.loading.partitioning import Dealer
from streaminfer.runtime.loading.produce import Loader
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.avro import Schemas, frame
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.json_events import Decoded
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.wire.events.test_avro_events import framed


def spec_of(form: str, **data: Any) -> Spec:
    return keyed_spec(partitions=3, data={"format": form, **data})


def schema_spec(folder: Path, key_type: Any, **more: Any) -> Spec:
    """A spec with an Avro schema whose key has a type, and whatever else the key's entry has."""
    fields = [{"name": "k", "type": "double"}, {"name": "city", "type": key_type, **more}]
    (folder / "event.avsc").write_text(json.dumps({"type": "record", "name": "Event", "fields": fields}))
    text = {"name": "demo", "data": {"format": "avro", "schema": "event.avsc"}, "key": "city"}
    return parse_spec({**text, "model": {"kind": "poisson", "field": "k"}}, folder=folder)


def encoded(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


def labels_of(found: Decoded) -> list[bytes]:
    """The key of each event."""
    keys = found.events.keys
    assert keys is not None
    assert list(keys.labels) == sorted({keys.labels[group] for group in keys.groups})
    return [keys.labels[group] for group in keys.groups]


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
def test_keys_come_back(form: str) -> None:
    spec = spec_of(form)
    cities = [7, -3, 2**53, 7] if form == "rows" else ["ö", "b", "c/d", "ö"]
    values = format_of(spec).encode([encoded({"k": i, "city": city}) for i, city in enumerate(cities)])
    found = format_of(spec).decode(values)
    assert not found.bad
    assert found.events.numbers[:, 0].tolist() == [0, 1, 2, 3]
    assert [label.decode() for label in labels_of(found)] == [str(city) for city in cities]


def test_keys_are_those_of_good_events_alone() -> None:
    form = format_of(spec_of("json"))
    for city in "ab":
        bad = encoded({"k": -1, "city": "c"})
        assert labels_of(form.decode([bad, encoded({"k": 1, "city": city})])) == [city.encode()]


def test_keys_of_several_schemas_come_back_in_the_order_of_their_records() -> None:
    city = {"name": "city", "type": ["string", "long"]}
    as_int = {"type": "record", "name": "E", "fields": [{"name": "k", "type": "int"}, city]}
    as_double = {"type": "record", "name": "E", "fields": [city, {"name": "k", "type": "double"}]}
    schemas = {7: json.dumps(as_int), 8: json.dumps(as_double)}
    cities: list[Any] = ["b", 5, "a", "5", "b", "c"]
    rows = [{"k": -1 if i == 4 else i, "city": each} for i, each in enumerate(cities)]
    values = [framed(as_int if i % 2 else as_double, row, 7 if i % 2 else 8) for i, row in enumerate(rows)]
    found = format_of(spec_of("avro"), Schemas(lookup=schemas.get)).decode(values)
    assert labels_of(found) == [b"b", b"5", b"a", b"5", b"c"]
    assert found.events.numbers.tolist() == [[0], [1], [2], [3], [5]]
    assert found.places.tolist() == [0, 1, 2, 3, 5]
    assert [bad.place for bad in found.bad] == [4]


@pytest.mark.parametrize("schema_type", ["int", "long", {"type": "enum", "name": "E", "symbols": ["a", "b"]}])
def test_avro_keys_of_other_types(schema_type: Any, tmp_path: Path) -> None:
    spec = schema_spec(tmp_path, ["null", schema_type])
    city = "b" if isinstance(schema_type, dict) else 12
    values = format_of(spec).encode([encoded({"k": 1.0, "city": each}) for each in (city, None)])
    found = format_of(spec).decode(values)
    assert labels_of(found) == [str(city).encode()]
    assert [(bad.place, bad.reason.partition(":")[0]) for bad in found.bad] == [(1, "city")]


def test_rows_with_keys_that_are_no_whole_numbers_are_bad() -> None:
    spec = spec_of("rows")
    good, bad = {"k": 1, "city": 5}, [{"k": 1, "city": 5.5}, {"k": 1, "city": 1e300}]
    found = format_of(spec).decode(format_of(spec).encode([encoded(row) for row in (bad[0], good, bad[1])]))
    assert (found.events.numbers.tolist(), labels_of(found)) == ([[1.0]], [b"5"])
    assert (
        found.bad[0].reason
        == "rows 0, 2 of 3: city: must be a text of 1 to 256 bytes, or a whole number (got 5.5, 1e+300)"
    )


def test_rows_of_more_keys_than_an_increment_holds_are_cut_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.spec.key.RECORD", 1 << 12)
    for place in ("spec.key.MAX_COLUMNS", "wire.key_columns.MAX_BYTES"):
        monkeypatch.setattr(f"streaminfer.{place}", 1 << 16)
    rig = KeyedRig(keyed_spec(partitions=1, data={"format": "rows"}, minibatch=8))
    form = format_of(rig.spec)
    for i in range(8):
        rig.send(*form.encode([encoded({"k": 1, "city": 10**15 + 200 * i + j}) for j in range(200)]))
    rig.run(rig.master(), rig.worker())
    assert rig.whole().counts.n_keys == 1600
    assert len(rig.spans()) > 1


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
def test_all_events_of_a_key_go_to_one_partition(form: str) -> None:
    spec = spec_of(form)
    made = format_of(spec)
    rows = [encoded({"k": i, "city": i % 10}) for i in range(100)] if form == "rows" else [
        encoded({"k": i, "city": f"city-{i % 10}"}) for i in range(100)
    ]  # fmt: skip
    outputs = Dealer(spec).outputs(made, "t", 3, 0, [rows])
    seen = 0
    for output in outputs:
        found = made.decode([output.value])
        seen += len(found.events.numbers)
        assert {partition_of(label, 3) for label in labels_of(found)} == {output.partition}
        assert output.key == (None if form == "rows" else labels_of(found)[0])
    assert seen == 100
    assert {output.partition for output in outputs} == {0, 1, 2}


def test_a_row_without_a_key_is_dealt_for_the_worker_to_judge() -> None:
    spec = spec_of("json")
    rows = [b"no json", b'{"k": 1}', b'{"k": 1, "city": []}', b"[1]"]
    outputs = Dealer(spec).outputs(format_of(spec), "t", 3, 0, [rows])
    assert [(output.value, output.key) for output in outputs] == [(row, None) for row in rows]


def test_keys_of_a_csv_file_stay_texts(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("k,city\n1,007\n2,007\n3,8\n")
    rig = KeyedRig(keyed_spec(partitions=3, minibatch=1))
    assert [progress.rows for progress in Loader(rig.spec, rig.bus, path).run()][-1] == 3
    rig.run(rig.master(), rig.worker())
    assert rig.keys() == {"007": 2, "8": 1}
    with path.open("rb") as stream:
        rows = list(read_csv(spec_of("rows"), Counted(stream, "f"), "f"))
    assert [json.loads(row)["city"] for row in rows] == [7, 7, 8]


def test_a_key_that_is_nested_is_found_by_produce() -> None:
    spec = spec_of("json", fields={"city": "at.city"})
    (output,) = Dealer(spec).outputs(format_of(spec), "t", 3, 0, [[encoded({"k": 1, "at": {"city": "x"}})]])
    assert (output.key, output.partition) == (b"x", partition_of(b"x", 3))
    found = format_of(spec).decode([output.value])
    assert (found.events.numbers.tolist(), labels_of(found)) == ([[1.0]], [b"x"])


PRICES = {"kind": "linear_regression", "features": ["sqm", "rooms"], "target": "price"}


@pytest.mark.parametrize("form", ["json", "rows"])
def test_a_column_of_a_csv_file_may_be_key_and_number(form: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("sqm,rooms,price\n50,3,1\n51,003,2\n52,3.0,3\n53,4,4\n54,3.5,5\n")
    rig = KeyedRig(keyed_spec(PRICES, partitions=3, key="rooms", data={"format": form}, minibatch=1))
    assert [progress.rows for progress in Loader(rig.spec, rig.bus, path).run()][-1] == 5
    made, seen = format_of(rig.spec), 0
    for partition in range(3):
        for record in rig.records("events", partition):
            labels = labels_of(made.decode([record.value]))
            seen += len(labels)
            assert {partition_of(label, 3) for label in labels} <= {partition}
    assert seen >= 2
    rig.run(rig.master(), rig.worker())
    assert (rig.keys(), rig.whole().counts.n_dead_lettered) == ({"3": 3, "4": 1}, 1)


def test_keys_of_a_csv_file_are_numbers_where_the_avro_schema_says_so(tmp_path: Path) -> None:
    spec = schema_spec(tmp_path, ["null", "long"])
    (tmp_path / "data.csv").write_text("k,city\n1,007\n2,\n")
    with (tmp_path / "data.csv").open("rb") as stream:
        rows = list(read_csv(spec, Counted(stream, "f"), "f"))
    assert [json.loads(row)["city"] for row in rows] == [7, None]
    assert labels_of(format_of(spec).decode(format_of(spec).encode(rows))) == [b"7"]


MOMENT = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize("key_type", [None, "string", ["null", "long"], ["string", "int"], MOMENT])
def test_keys_that_are_whole_numbers_are_written_as_the_avro_schema_has_them(key_type: Any, tmp_path: Path) -> None:
    spec = spec_of("avro") if key_type is None else schema_spec(tmp_path, key_type)
    cities = [3, 3.0, -4, 2.5, True]
    rows = [encoded({"k": i, "city": city}) for i, city in enumerate(cities)]
    found = format_of(spec).decode(format_of(spec).encode(rows))
    assert labels_of(found) == [b"3", b"3", b"-4"]
    assert [bad.place for bad in found.bad] == [3, 4]


def test_a_nested_key_is_written_as_a_text_too() -> None:
    spec = spec_of("avro", fields={"city": "at.city"})
    rows = [encoded({"k": 1, "at": {"city": 12}}), encoded({"k": 1, "at": 5})]
    found = format_of(spec).decode(format_of(spec).encode(rows))
    assert (labels_of(found), [bad.place for bad in found.bad]) == ([b"12"], [1])


@pytest.mark.parametrize(("key_type", "default"), [("long", 12), ("int", 12), ("string", "12")])
def test_a_writer_without_the_key_has_its_default(key_type: str, default: Any, tmp_path: Path) -> None:
    spec = schema_spec(tmp_path, key_type, default=default)
    writer = {"type": "record", "name": "W", "fields": [{"name": "k", "type": "double"}]}
    record = frame(9, fastavro.parse_schema(writer), {"k": 1.0})
    found = format_of(spec, Schemas(lookup=lambda _: json.dumps(writer))).decode([record])
    assert (labels_of(found), found.bad) == ([b"12"], [])
