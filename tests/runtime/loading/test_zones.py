"""Times without a zone in a file are UTC, and that is said, once."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaminfer.runtime import names
from streaminfer.runtime.loading.produce import Loader, Piped
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.events.formats import format_of
from tests.contracts.bus_harness import read_all
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import SimulatedBus

NOON = dt.datetime(2024, 5, 1, 12)
SECONDS = 1_714_564_800.0


def spec_of(form: str = "json", path: str = "at") -> Spec:
    return parse_spec(
        {
            "name": "demo",
            "data": {"format": form, "timestamp": path, "partitions": 1},
            "model": {"kind": "poisson", "field": "k"},
            "inference": {"forget": {"half_life_seconds": 60}},
        }
    )


def loaded(spec: Spec, path: Path) -> list[list[float]]:
    bus = SimulatedBus(Broker(Clock()))
    names.create_topics(spec, bus)
    list(Loader(spec, bus, path).run())
    return decoded(spec, bus)


def decoded(spec: Spec, bus: Any) -> list[list[float]]:
    found = format_of(spec).decode([record.value for record in read_all(bus, "demo.events")])
    assert found.bad == []
    return found.events.numbers.tolist()


def write(path: Path, at: Any) -> Path:
    """Three rows, all with one time."""
    rows = [{"k": k, "at": at} for k in range(3)]
    if path.suffix == ".csv":
        path.write_text("k,at\n" + "".join(f"{row['k']},{at}\n" for row in rows))
    elif path.suffix == ".ndjson":
        path.write_text("".join(f'{{"k": {row["k"]}, "at" : "{at}"}}\n' for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        local = "local-" if at.tzinfo is None else ""
        kind = {"type": "long", "logicalType": f"{local}timestamp-micros"}
        fields = [{"name": "k", "type": "int"}, {"name": "at", "type": kind}]
        with path.open("wb") as stream:
            fastavro.writer(stream, {"type": "record", "name": "R", "fields": fields}, rows)
    return path


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet", "avro"])
def test_it_is_said_once_for_a_file(tmp_path: Path, ending: str, form: str, caplog: pytest.LogCaptureFixture) -> None:
    text = ending in {"csv", "ndjson"}
    path = write(tmp_path / f"f.{ending}", "2024-05-01 12:00:00" if text else NOON)
    assert loaded(spec_of(form), path) == [[k, SECONDS] for k in range(3)]
    assert caplog.messages == [f"{path}: times without a zone are taken as UTC"]


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet", "avro"])
def test_nothing_is_said_of_times_with_a_zone(tmp_path: Path, ending: str, caplog: pytest.LogCaptureFixture) -> None:
    text = ending in {"csv", "ndjson"}
    at: Any = "2024-05-01 14:00:00.000+02:00" if text else NOON.replace(tzinfo=dt.UTC)
    assert loaded(spec_of(), write(tmp_path / f"f.{ending}", at)) == [[k, SECONDS] for k in range(3)]
    assert caplog.messages == []


def test_only_the_time_of_events_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "f.ndjson").write_text('{"k": 1, "at": "2024-05-01 12:00:00", "a": {"at": "2024-05-01T12:00:00Z"}}\n')
    loaded(spec_of(path="a.at"), tmp_path / "f.ndjson")
    plain = parse_spec({"name": "demo", "data": {"partitions": 1}, "model": {"kind": "poisson", "field": "k"}})
    loaded(plain, tmp_path / "f.ndjson")
    assert caplog.messages == []


def test_it_is_said_of_standard_input_too(caplog: pytest.LogCaptureFixture) -> None:
    bus, spec = SimulatedBus(Broker(Clock())), spec_of()
    names.create_topics(spec, bus)
    list(Piped(spec, bus, io.BytesIO(b"k,at\n1,2024-05-01T12:00:00Z\n1,2024-05-01T12:00:00\n"), "csv").run())
    assert caplog.messages == ["standard input: times without a zone are taken as UTC"]
    assert decoded(spec, bus) == [[1, SECONDS]] * 2
