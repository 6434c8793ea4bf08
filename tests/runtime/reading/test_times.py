"""Forgetting by time in every data format: the weights of the definition, from every kind of file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaminfer.bus.protocol import Output
from streaminfer.models.times import AHEAD_S
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.loading.files import Counted, FileError
from streaminfer.runtime.loading.produce import Loader
from streaminfer.runtime.loading.readers import read_avro, read_parquet
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.rows import Table, pack, unpack
from tests.runtime.rig import Rig

NOW = 1_700_000_000
HALF_LIFE = 40.0
MILLIS: Any = {"type": "long", "logicalType": "timestamp-millis"}


def spec_of(form: str, partitions: int = 1, timestamp: str | None = "at", **data: Any) -> Spec:
    return parse_spec(
        {
            "name": "demo",
            "data": {"format": form, "partitions": partitions, "timestamp": timestamp, **data},
            "model": {"kind": "poisson", "field": "k"},
            "inference": {
                "minibatch": 4, "linger_ms": 5, "snapshot_ms": 1, "forget": {"half_life_seconds": HALF_LIFE}
            },
        }
    )  # fmt: skip


def weighted(counts: Any, seconds: Any) -> tuple[float, float]:
    """The sum of counts and of weights, each event halved for each half-life that the newest is newer."""
    weights = 2.0 ** ((np.array(seconds) - max(seconds)) / HALF_LIFE)
    return float(weights @ np.array(counts)), float(weights.sum())


def check(rig: Rig, counts: Any, seconds: Any) -> None:
    found, (total, effective) = rig.snapshot(), weighted(counts, seconds)
    assert found.payload.statistics[0] == pytest.approx(total, rel=1e-9)
    assert found.n_effective == pytest.approx(effective, rel=1e-9)
    assert (found.n_events, found.payload.clocks[0].newest) == (len(counts), max(seconds))


def publish(rig: Rig, value: bytes, at: float = NOW, partition: int = 0) -> None:
    rig.bus.publish([Output(rig.topic("events"), value, partition=partition, timestamp=round(at * 1000))])


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
@pytest.mark.parametrize("timestamp", [None, "at"])
def test_events_weigh_by_their_times_or_else_their_records(form: str, timestamp: str | None) -> None:
    """Several events a record have one timestamp, and each its own time."""
    rig = Rig(spec_of(form, partitions=2, timestamp=timestamp))
    rng = np.random.default_rng(4)
    counts, seconds = [], []
    for i in range(30):
        events = [(int(k), NOW - float(age)) for k, age in zip(rng.poisson(9, 3), rng.uniform(0, 90, 3), strict=True)]
        stamp = NOW - float(rng.integers(0, 90))
        rows = [json.dumps({"k": k, "at": at}).encode() for k, at in events]
        for value in format_of(rig.spec).encode(rows):
            publish(rig, value, stamp if timestamp is None else NOW, i % 2)
        counts += [k for k, _ in events]
        seconds += [at if timestamp else stamp for _, at in events]
    rig.run(rig.worker("a"), rig.worker("b"), rig.master(), rounds=60)
    check(rig, counts, seconds)
    assert len(rig.records("events")) == (15 if form == "rows" else 45)


def rows_of(*pairs: tuple[float, float]) -> bytes:
    return pack(3, Table(("k", "at"), np.array(pairs, dtype=np.float64)))


def test_bad_times_of_rows_are_letters_of_their_own_and_may_be_sent_again() -> None:
    rig = Rig(spec_of("rows"))
    worker, master = rig.worker(), rig.master()
    ahead, far = (8, NOW + AHEAD_S + 20), (16, NOW + 9e9)
    publish(rig, rows_of((1, NOW), (2, np.nan), ahead, (4, NOW - 40), far, (-1, NOW)))
    publish(rig, rows_of((1, NOW)), at=-1)
    rig.run(worker, master, rounds=30)
    check(rig, [1, 4], [NOW, NOW - 40])
    first, second = list(Pending(rig.spec, rig.bus))
    np.testing.assert_array_equal(unpack(first.value).values, [(2, np.nan), ahead, far, (-1, NOW)])
    assert first.reason.count("; rows ") == 2
    assert "rows 2, 4 of 6: timestamp (from at): must not be more than 3600 seconds after the record's" in first.reason
    assert (second.reason, second.value) == (
        "the record's timestamp must be of the years 1970 to 9999", rows_of((1, NOW))
    )  # fmt: skip
    assert rig.snapshot().counts.n_dead_lettered == 5, "four rows, and a record that cannot be dated"
    publish(rig, first.value or b"", at=NOW + 100)
    rig.run(worker, master, rounds=30)
    check(rig, [1, 4, 8], [NOW, NOW - 40, NOW])  # alone so far ahead of its partition, it counts as of that
    assert rig.snapshot().counts.n_dead_lettered == 8


def test_records_keep_their_places_where_some_cannot_be_dated() -> None:
    rig = Rig(spec_of("avro"))
    good, early, junk = (*format_of(rig.spec).encode([b'{"k":1,"at":%d}' % NOW, b'{"k":2,"at":1}']), b"junk")
    for value, at in ((early, -5), (good, NOW), (junk, NOW), (good, -5), (early, NOW)):
        publish(rig, value, at)
    rig.run(rig.worker(), rig.master(), rounds=30)
    check(rig, [1, 2], [NOW, 1])
    undated = "the record's timestamp must be of the years 1970 to 9999"
    assert [(x.offset, x.value, x.reason[:8]) for x in list(Pending(rig.spec, rig.bus))] == [
        (0, early, undated[:8]), (2, junk, "not Avro"), (3, good, undated[:8])
    ]  # fmt: skip


N = 300
_RNG = np.random.default_rng(8)
COUNTS = _RNG.poisson(5, N).tolist()
PARTS = (NOW * 1000 - _RNG.integers(0, 200_000, N)).tolist()
"""Milliseconds since 1970."""
SECONDS = [at / 1000 for at in PARTS]
MOMENTS = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at) for at in PARTS]


def text_file(path: Path) -> None:
    """Seconds and texts in turn."""
    said = [at if i % 2 else MOMENTS[i].isoformat().replace("+00:00", "Z") for i, at in enumerate(SECONDS)]
    if path.suffix == ".csv":
        path.write_text("k,at\n" + "".join(f"{k},{at}\n" for k, at in zip(COUNTS, said, strict=True)))
    else:
        lines = [json.dumps({"k": k, "at": at}) for k, at in zip(COUNTS, said, strict=True)]
        path.write_text("\n".join(lines))


def parquet_file(unit: str, zone: str | None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        at = pa.array(PARTS, pa.timestamp("ms", zone)).cast(pa.timestamp(unit, zone))
        pq.write_table(pa.table({"k": COUNTS, "at": at, "other": at}), path)

    return write


def avro_file(at: Any, scale: int = 1) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        schema: Any = {
            "type": "record", "name": "R", "fields": [{"name": "k", "type": "long"}, {"name": "at", "type": at}]
        }  # fmt: skip
        values = MOMENTS if scale == 1 else [part * scale for part in PARTS]
        rows = [{"k": k, "at": moment} for k, moment in zip(COUNTS, values, strict=True)]
        with path.open("wb") as stream:
            fastavro.writer(stream, schema, rows)

    return write


FILES: dict[str, Callable[[Path], None]] = {
    "texts.csv": text_file,
    "texts.ndjson": text_file,
    "ms.parquet": parquet_file("ms", "UTC"),
    "ns.parquet": parquet_file("ns", None),
    "us of a zone.parquet": parquet_file("us", "Europe/Berlin"),
    "millis.avro": avro_file(MILLIS),
    "micros or nothing.avro": avro_file(["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    "nanos.avro": avro_file({"type": "long", "logicalType": "timestamp-nanos"}, 10**6),
    "local millis.avro": avro_file({"type": "long", "logicalType": "local-timestamp-millis"}),
}
FORMS: dict[str, dict[str, Any]] = {
    "json": {"format": "json"},
    "avro": {"format": "avro"},
    "avro millis": {"format": "avro", "schema": "own.avsc"},
    "rows": {"format": "rows"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("file", FILES)
def test_the_same_posterior_from_every_file_in_every_format(
    file: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMINFER_SPEC_FILES", "anywhere")
    fields = [{"name": "at", "type": ["null", MILLIS]}, {"name": "k", "type": "int"}]
    (tmp_path / "own.avsc").write_text(json.dumps({"type": "record", "name": "Own", "fields": fields}))
    data = FORMS[form]
    if "schema" in data:
        data = {**data, "schema": str(tmp_path / "own.avsc")}
    spec = spec_of(partitions=2, **{"form": data["format"], **{k: v for k, v in data.items() if k != "format"}})
    rig = Rig(spec)
    rig.clock.advance(NOW - rig.clock())
    FILES[file](tmp_path / file)
    list(Loader(spec, rig.bus, tmp_path / file).run())
    assert len(rig.records("events")) == (1 if form == "rows" else N // 2)
    rig.run(rig.worker(), rig.master(), rounds=30)
    check(rig, COUNTS, SECONDS)
    assert rig.snapshot().counts.n_dead_lettered == 0


@pytest.mark.parametrize("value", [2**62, -(2**62), 253_402_300_800_000, -62_135_596_801_000])
def test_a_time_that_no_library_holds_is_for_the_worker_to_judge(value: int, tmp_path: Path) -> None:
    """One bad event does not end a file."""
    spec = spec_of("json")
    schema: Any = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "k", "type": "long"}, {"name": "at", "type": MILLIS}],
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"k": 1, "at": value}, {"k": 2, "at": 1000 * NOW}])
    out.seek(0)
    rows = list(read_avro(spec, Counted(out, "f"), "f"))
    out = io.BytesIO()
    pq.write_table(pa.table({"k": [1, 2], "at": pa.array([value, 1000 * NOW], pa.timestamp("ms"))}), out)
    out.seek(0)
    for found in (rows, list(read_parquet(spec, Counted(out, "f"), "f"))):
        decoded = format_of(spec).decode(found)
        assert decoded.events.numbers.tolist() == [[2, NOW]]
        assert [bad.place for bad in decoded.bad] == [0]


def test_nested_times_of_files(tmp_path: Path) -> None:
    spec = spec_of("rows", timestamp="t.at")
    inner: Any = {"type": "record", "name": "T", "fields": [{"name": "at", "type": ["null", MILLIS]}]}
    schema: Any = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "k", "type": "long"}, {"name": "t", "type": inner}],
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"k": 1, "t": {"at": MOMENTS[0]}}])
    out.seek(0)
    rows = list(read_avro(spec, Counted(out, "f"), "f"))
    out = io.BytesIO()
    kind = pa.struct([("at", pa.timestamp("ns")), ("other", pa.timestamp("ns"))])
    moment = {"at": PARTS[0] * 10**6, "other": 123_456_789}
    pq.write_table(pa.table({"k": [1], "t": pa.array([moment], kind)}), out)
    out.seek(0)
    rows += read_parquet(spec, Counted(out, "f"), "f")
    assert json.loads(rows[1])["t"]["other"] == "1970-01-01T00:00:00.123456", "Python has no nanoseconds"
    (record,) = format_of(spec).encode(rows)
    assert format_of(spec).decode([record]).events.numbers.tolist() == [[1, SECONDS[0]]] * 2


@pytest.mark.parametrize("logical", ["timestamp-millis", "local-timestamp-micros"])
def test_a_time_in_a_type_that_is_used_by_its_name(logical: str) -> None:
    """Then the library makes a moment of it, with a zone or without."""
    spec = spec_of("rows", timestamp="t.at")
    kind = {"type": "long", "logicalType": logical}
    inner: Any = {"type": "record", "name": "T", "fields": [{"name": "at", "type": kind}]}
    fields = [{"name": "k", "type": "long"}, {"name": "first", "type": inner}, {"name": "t", "type": "T"}]
    moment = MOMENTS[0] if logical == "timestamp-millis" else MOMENTS[0].replace(tzinfo=None)
    out = io.BytesIO()
    fastavro.writer(
        out,
        fastavro.parse_schema({"type": "record", "name": "R", "fields": fields}),
        [{"k": 1, "first": {"at": datetime(2000, 1, 1, tzinfo=moment.tzinfo)}, "t": {"at": moment}}],
    )
    out.seek(0)
    (record,) = format_of(spec).encode(list(read_avro(spec, Counted(out, "f"), "f")))
    assert format_of(spec).decode([record]).events.numbers.tolist() == [[1, SECONDS[0]]]


def test_a_file_with_a_time_in_several_units_is_refused() -> None:
    fields = [{"name": "k", "type": "long"}, {"name": "at", "type": ["int", MILLIS]}]
    schema: Any = {"type": "record", "name": "R", "fields": fields}
    out = io.BytesIO()
    fastavro.writer(out, schema, [])
    out.seek(0)
    with pytest.raises(
        FileError, match=r"f: has a schema that cannot be used: timestamp \(from at\): is a whole number in"
    ):
        list(read_avro(spec_of("json"), Counted(out, "f"), "f"))
