"""Whatever bytes come, a decoder answers with a value or with its own error, never with another."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.models.events import Field
from streaminfer.models.times import AHEAD_S
from streaminfer.runtime.folding.parts import Parts
from streaminfer.runtime.loading.files import Counted, FileError, read_csv, read_ndjson
from streaminfer.runtime.loading.readers import read_avro
from streaminfer.sampling.pooled.shown import Sampled
from streaminfer.spec import parse_spec
from streaminfer.variational.increment import Layout, Pane
from streaminfer.wire import answers, dead_letters, draws, increments, panes, questions, sampler_states, snapshots
from streaminfer.wire.avro import Schemas, frame
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.json_events import EventFormat, decode_json
from streaminfer.wire.events.rows import Table, pack
from streaminfer.wire.panes import PanePlace, Shelf
from streaminfer.wire.snapshots import Assembler, OtherSpec
from tests.wire import (
    chain_messages,
    question_messages,
    test_draws,
    test_questions,
    test_sampled_snapshots,
    test_sampler_states,
)
from tests.wire.budget import INPUTS, PROMISED, examples
from tests.wire.chain_messages import SIZE, UNIT
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL, increment, increment_record, snapshot, snapshot_record
from tests.wire.mutation import arbitrary, mutated

LONGS = [b"\x00", b"\x01", b"\x02", b"\x7f", b"\xff" * 9 + b"\x01", b"\x80" * 20, b"\xfe\xff\xff\xff\x0f"]
"""Encoded integers at the edges: 0, -1, 1, -2^63, an endless one, 2^31 - 1."""
INCREMENTS = [
    increment_record(),
    *increments.encode(increment(statistics=np.arange(4.0)), increments.ENVELOPE + 16),
    increments.encode(increment(n_events=0, n_lost=5, n_dead_lettered=0), 1 << 20)[0],
]
SNAPSHOTS = [
    snapshot_record(),
    snapshot_record({"frontier": []}),
    *(data for _, data in snapshots.encode(snapshot(), NATURAL, ABOUT, snapshots.ENVELOPE + 16)),
]
PLACE = PanePlace(2, 7)
PANES = [
    data for size in (1 << 20, panes.ENVELOPE + 16)
    for _, data in panes.encode(PLACE, Pane(4, np.arange(3.0)), FINGERPRINT, 6, size)
]  # fmt: skip
FIELDS = (Field("k", "count"), Field("x", "number"), Field("c", "category", ("a", "b")))
EVENTS = [
    b'{"k":1,"x":-2.5e3,"c":"a"}',
    b'{"k":0,"x":0,"c":"b","more":[{"deep":null},true,"\\ud800"]}',
    b"[1,2]",
    b"null",
]
JSON = [b"[", b"{", b'"', b"NaN", b"1e999", b"-", b"\\u0000", b"9" * 30, b'"k":', b"\xf0\x9f\x98\x80", b"true", b"\x00"]
SPEC = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k", "exposure": "t"}})
CSV = [b'k,t,note\r\n1,0.5,a\r\n2,1,"b\nc"\r\n', b"\xef\xbb\xbfk,t\n1,2\n", b'"t","k"\n"1","2"\n\n3,4,5\n']
NDJSON = [b'{"k":1,"t":2}\n\n{"k":3,"t":1}\r\n', b"\n \n[]\n"]


def _decode_increment(data: bytes) -> increments.Part | None:
    with suppress(WireError):
        return increments.decode(data)
    return None


def _add_snapshot(assembler: Assembler, data: bytes) -> None:
    with suppress(WireError, OtherSpec):
        found = assembler.add(data)
        if found is not None:
            assert np.isfinite(found.payload.statistics).all()
            assert found.payload.statistics.shape == (3,)
            assert (
                min(found.n_events, found.read_to, found.counts.staleness, *found.frontier.positions.values(), 0) == 0
            )


def test_at_least_as_many_inputs_as_promised() -> None:
    assert sum(INPUTS.values()) >= PROMISED


@examples("increments.decode, arbitrary bytes")
@given(arbitrary())
def test_increments_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _decode_increment(data)
        _decode_increment(b"\x00\x00\x00\x00\x01" + data)


@examples("increments.decode, mutated")
@given(mutated(INCREMENTS, LONGS))
def test_increments_mutated(messages: list[bytes]) -> None:
    for part in map(_decode_increment, messages):
        if part is not None:
            assert 0 <= part.value["begin"] < part.value["end"]
            with suppress(BadValue):
                made = increments.assemble([part], Layout(3))
                assert np.isfinite(made.payload.statistics).all()


@examples("increments.assemble, any parts")
@given(st.binary(max_size=40))
def test_parts_in_any_order(draw: bytes) -> None:
    size = len(draw) % 5
    parts = Parts(Layout(size))
    for number, of, length, writer in zip(draw[::4], draw[1::4], draw[2::4], draw[3::4], strict=False):
        value = {**PART.value, "part": number % 4, "parts": 1 + of % 4, "writer": "ab"[writer % 2]}
        part = increments.Part({**value, "end": 12 + writer % 3, "statistics": bytes(length % 40)})
        with suppress(BadValue):
            made = parts.add(part)
            assert made is None or made.payload.statistics.shape == (size,)
        with suppress(BadValue):
            increments.assemble([part] * value["parts"], Layout(size))


PART = increments.decode(INCREMENTS[0])


def _add_panes(messages: list[bytes]) -> None:
    shelf = Shelf(FINGERPRINT, 3, 10)
    for data in messages:
        for part in range(2):
            with suppress(WireError):
                shelf.add(f"2/7/{part}".encode(), data)
    with suppress(WireError):
        for clock, found in shelf.panes(6).items():
            assert (clock, list(found)) == (2, [7])
            assert np.isfinite(found[7].statistics).all()
            assert found[7].statistics.shape == (3,)
            assert found[7].n_events >= 1


@examples("panes.add, arbitrary bytes")
@given(arbitrary())
def test_panes_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _add_panes([data, b"\x00\x00\x00\x00\x06" + data])


@examples("panes.add, mutated")
@given(mutated(PANES, LONGS))
def test_panes_mutated(messages: list[bytes]) -> None:
    _add_panes(messages)


SAMPLED = [
    data for size in (1 << 20, snapshots.ENVELOPE + 500)
    for _, data in snapshots.encode(
        test_sampled_snapshots.snapshot(Sampled(chain_messages.VALUES, chain_messages.shown())), NATURAL, ABOUT, size
    )
]  # fmt: skip


@examples("snapshots.add of draws, mutated")
@given(mutated(SAMPLED, LONGS))
def test_snapshots_of_draws_mutated(messages: list[bytes]) -> None:
    assembler = test_sampled_snapshots.reader()
    for data in messages:
        with suppress(WireError, OtherSpec):
            found = assembler.add(data)
            if found is not None:
                made = found.payload.sampled
                assert made is not None
                assert made.draws.shape[1] == SIZE
                assert np.isfinite(made.draws).all()
                assert min(made.shown.n_draws, *made.shown.counters, len(made.shown.chains)) >= 0


DRAWS = [
    data for size in (1 << 20, test_draws.TIGHT + 24) for _, data in draws.encode(chain_messages.draws(), 5, 9, size)
]
DRAWS_KEYS = [draws.Place(5, 4, 9, part).key for part in range(3)]


def _add_draws(messages: list[bytes]) -> None:
    held = draws.Assembler(FINGERPRINT, UNIT, SIZE)
    for i, data in enumerate(messages):
        with suppress(WireError):
            found = held.add(DRAWS_KEYS[i % 3], data)
            if found is not None:
                made = found.draws
                assert all(np.isfinite(each).all() for each in (made.values, made.weights, made.log_density, made.size))
                assert made.values.shape == (len(made.weights), SIZE)
                assert min(made.n_events, made.begin, made.end - made.begin, *made.counters) >= 0


@examples("draws.add, arbitrary bytes")
@given(arbitrary())
def test_draws_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _add_draws([data, b"\x00\x00\x00\x00\x0a" + data])


@examples("draws.add, mutated")
@given(mutated(DRAWS, LONGS))
def test_draws_mutated(messages: list[bytes]) -> None:
    _add_draws(messages)


ASKED = [
    data for size in (1 << 20, test_questions.TIGHT + 24)
    for _, data in questions.encode(question_messages.question(), FINGERPRINT, size)
]  # fmt: skip
ANSWERED = [
    data for size in (1 << 20, test_questions.TIGHT_ANSWER + 24)
    for _, data in answers.encode(question_messages.answer(), FINGERPRINT, size)
]  # fmt: skip


def _ask(messages: list[bytes]) -> None:
    asked, answered = question_messages.questions_reader(), question_messages.answers_reader()
    for i, data in enumerate(messages):
        with suppress(WireError):
            question = asked.add(f"part-{i % 3}".encode(), data)
            if question is not None:
                assert np.isfinite(question.theta).all()
                assert question.theta.shape[1] == question_messages.DIMENSION
                assert all(span.start <= span.end for share in question.shares for span in share.spans)
        with suppress(WireError):
            answer = answered.add(f"part-{i % 3}".encode(), data)
            assert answer is None or np.isfinite(answer.values).all()


@examples("questions.add and answers.add, arbitrary bytes")
@given(arbitrary())
def test_questions_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _ask([data, b"\x00\x00\x00\x00\x0d" + data, b"\x00\x00\x00\x00\x0e" + data])


@examples("questions.add and answers.add, mutated")
@given(mutated([*ASKED, *ANSWERED], LONGS))
def test_questions_mutated(messages: list[bytes]) -> None:
    _ask(messages)


STATES = [
    data for size in (1 << 20, test_sampler_states.TIGHT + 24)
    for _, data in sampler_states.encode(chain_messages.state(), size)
]  # fmt: skip
STATE_KEYS = [f"part-{part}".encode() for part in (1, 2, 3, 0)]


def _add_states(messages: list[bytes]) -> None:
    for before in ([], STATES[:1]):
        shelf = sampler_states.Shelf(FINGERPRINT, UNIT, 20)
        for key, data in zip(STATE_KEYS, [*before, *messages], strict=False):
            for name in (key, STATE_KEYS[-1]):
                with suppress(WireError):
                    shelf.add(name, data)
        if shelf.newest is not None:
            assert shelf.newest.values.size + shelf.newest.setup.size <= 20
            assert np.isfinite(shelf.newest.values).all()
            assert np.isfinite(shelf.newest.setup).all()


@examples("sampler_states.add, arbitrary bytes")
@given(arbitrary())
def test_states_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _add_states([data, b"\x00\x00\x00\x00\x0b" + data])


@examples("sampler_states.add, mutated")
@given(mutated(STATES, LONGS))
def test_states_mutated(messages: list[bytes]) -> None:
    _add_states(messages)


@examples("increments.assemble, any panes")
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5, 1e17, 1.7e9, 1e300, np.inf]), max_size=25))
def test_any_numbers_as_panes(numbers: list[float]) -> None:
    part = increments.Part({**PART.value, "statistics": np.array(numbers, "<f8").tobytes()})
    with suppress(BadValue):
        made = increments.assemble([part], Layout(3, windowed=True))
        assert sum(pane.n_events for pane in made.payload.panes.values()) <= made.n_events
        assert all(pane.n_events >= 1 and np.isfinite(pane.statistics).all() for pane in made.payload.panes.values())


@examples("snapshots.add, arbitrary bytes")
@given(arbitrary())
def test_snapshots_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        assembler = Assembler(FINGERPRINT, 3)
        _add_snapshot(assembler, data)
        _add_snapshot(assembler, b"\x00\x00\x00\x00\x05" + data)


@examples("snapshots.add, mutated")
@given(mutated(SNAPSHOTS, LONGS))
def test_snapshots_mutated(messages: list[bytes]) -> None:
    assembler = Assembler(FINGERPRINT, 3)
    for record in (*SNAPSHOTS[2:-1], *messages, SNAPSHOTS[-1]):
        _add_snapshot(assembler, record)


def _decode_events(data: bytes) -> None:
    decoded = decode_json(FIELDS, [data, EVENTS[0]])
    assert len(decoded.events.numbers) + len(decoded.bad) == 2
    assert decoded.events.numbers[-1].tolist() == [1.0, -2500.0, 0.0]
    assert np.isfinite(decoded.events.numbers).all()


@examples("events.decode_json, arbitrary bytes")
@given(arbitrary())
def test_events_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _decode_events(data)


@examples("events.decode_json, mutated")
@given(mutated(EVENTS, JSON))
def test_events_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _decode_events(data)


DATED = {"name": "demo", "model": {"kind": "poisson", "field": "k", "exposure": "t"}}
DATED |= {"inference": {"forget": {"half_life_seconds": 60}}}
AVRO = parse_spec({**DATED, "data": {"format": "avro", "timestamp": "at"}})
ROWS = parse_spec({**DATED, "data": {"format": "rows", "timestamp": "at"}})
WRITERS = [
    AVRO.event_schema,
    json.dumps(
        {"type": "record", "name": "R", "fields": [
            {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
            {"name": "k", "type": ["null", "long", "double"]}, {"name": "t", "type": "float"},
            {"name": "at", "type": ["string", {"type": "long", "logicalType": "timestamp-micros"}]},
        ]}
    ),
]  # fmt: skip
"""One width, which numpy reads, and many."""
VALUES_OF = [
    {"k": 3, "t": 0.5, "at": 1e9},
    {"tags": {"a": ["x", "y"], "b": []}, "k": 2, "t": 0.5, "at": "2001-09-09T01:46:40Z"},
    {"tags": {}, "k": 2.0, "t": 0.5, "at": 10**15},
]


def _avro(which: int, value: dict[str, Any]) -> bytes:
    return frame(which, fastavro.parse_schema(json.loads(WRITERS[which].replace("logicalType", "x"))), value)


AVRO_RECORDS = [_avro(0, VALUES_OF[0]), _avro(1, VALUES_OF[1]), _avro(1, VALUES_OF[2])]
AVRO_FORMAT = format_of(AVRO, Schemas(lookup=lambda i: WRITERS[i] if i < len(WRITERS) else None))
ROWS_FORMAT = format_of(ROWS)
ROWS_RECORDS = [
    pack(3, Table(("k", "t", "at"), np.array([[3, 0.5, 1e9], [2, 0.5, 1e9]]))),
    pack(3, Table(("at", "x", "k", "t"), np.array([[1e9, 7, 2, 0.5]]))),
]
FLOATS = [*LONGS, *(np.array(x, "<f8").tobytes() for x in (np.nan, np.inf, -np.inf, 1e300, 9e9, -1.0))]


def _decode_dated(made: EventFormat, data: bytes, good: bytes, n_good: int) -> None:
    """Between two good records; nothing of them changes, and no time is ahead of what the log says."""
    stamp = 1e9
    decoded = made.decode([good, data, good], np.full(3, stamp))
    assert len(decoded.events.numbers) == len(decoded.places)
    assert decoded.places.tolist() == sorted(decoded.places.tolist())
    assert np.isfinite(decoded.events.numbers).all()
    assert (decoded.events.numbers[:, -1] <= stamp + AHEAD_S).all()
    assert [int((decoded.places == place).sum()) for place in (0, 2)] == [n_good, n_good]
    assert {bad.place for bad in decoded.bad} <= {1}
    assert len(decoded.bad) == 1 or (decoded.places == 1).any() or made is ROWS_FORMAT, "a record of no rows is none"


@examples("avro_events.decode, arbitrary bytes")
@given(arbitrary())
def test_avro_events_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        for schema_id in range(2):
            _decode_dated(AVRO_FORMAT, bytes((0, 0, 0, 0, schema_id)) + data, AVRO_RECORDS[0], 1)


@examples("avro_events.decode, mutated")
@given(mutated(AVRO_RECORDS, FLOATS))
def test_avro_events_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _decode_dated(AVRO_FORMAT, data, AVRO_RECORDS[1], 1)


@examples("avro_schema.reduced, mutated")
@given(mutated([text.encode() for text in WRITERS], [b'"', b"{", b"[", b"]", b"null", b'"R"', b"1", b'"items":', b","]))
def test_schemas_mutated(messages: list[bytes]) -> None:
    """Whatever a registry says a schema is, its records are events or bad ones."""
    for data in messages:
        text = data.decode("latin-1")
        made = format_of(AVRO, Schemas(lookup=lambda _, text=text: text))
        decoded = made.decode(AVRO_RECORDS)
        assert len(decoded.events.numbers) + len(decoded.bad) == len(AVRO_RECORDS)


@examples("rows.decode, arbitrary bytes")
@given(arbitrary())
def test_rows_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _decode_dated(ROWS_FORMAT, b"\x00\x00\x00\x00\x03" + data, ROWS_RECORDS[0], 2)


@examples("rows.decode, mutated")
@given(mutated(ROWS_RECORDS, [*FLOATS, b"\x02k", b"\x04at", b"\x02t"]))
def test_rows_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _decode_dated(ROWS_FORMAT, data, ROWS_RECORDS[1], 1)


def _avro_file(codec: str) -> bytes:
    out = io.BytesIO()
    schema = json.loads(WRITERS[1].replace('{"type": "long", "logicalType": "timestamp-micros"}', '"long"'))
    fastavro.writer(out, fastavro.parse_schema(schema), VALUES_OF[1:], codec=codec)
    return out.getvalue()


AVRO_FILES = [_avro_file(codec) for codec in ("null", "deflate")]


@examples("read_avro, mutated")
@given(mutated(AVRO_FILES, [*LONGS, b"null", b"deflate", b"snappy", b"xz", b"lz4"]))
def test_avro_files_mutated(messages: list[bytes]) -> None:
    for data in messages:
        with suppress(FileError):
            rows = list(read_avro(AVRO, Counted(io.BytesIO(data), "f"), "f"))
            assert bool(AVRO_FORMAT.encode(rows)) == bool(rows)  # a file of no rows is a file


NAMES = [f"streaminfer-{name}" for name in ("topic", "partition", "offset", "reason", "key", "tombstone", "")]
NAMES += ["", "h", "\udcff"]
VALUES = [b"0", b"1", b"-1", b"99999999999999999999", b"9" * 5000, b"", b"\xff", b" 7 ", b"1_0", b"x", b"\xd9\xa3"]


@examples("dead_letters.decode")
@given(st.binary(max_size=20))
def test_dead_letters_from_any_headers(draw: bytes) -> None:
    pairs = zip(draw[::2], draw[1::2], strict=False)
    headers = tuple((NAMES[name % len(NAMES)], VALUES[value % len(VALUES)]) for name, value in pairs)
    value = draw if len(draw) % 2 else None
    ours = dead_letters.DeadLetter("t", 1, 2, "r", value).to_headers()
    for known in (0, len(draw) % len(ours), len(ours) - 1):
        with suppress(BadValue):
            letter = dead_letters.decode(value, (*ours[:known], *headers))
            assert letter.partition >= 0
            assert letter.offset >= 0
            cut = replace(letter, reason=letter.reason[: dead_letters.MAX_REASON])
            assert dead_letters.decode(value, letter.to_headers()) == cut


def _read_csv(data: bytes) -> None:
    with suppress(FileError):
        for row in read_csv(SPEC, Counted(io.BytesIO(data), "f"), "f"):
            decode_json(SPEC.model.fields, [row])


@examples("read_csv, arbitrary bytes")
@given(arbitrary())
def test_csv_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _read_csv(data)
        _read_csv(b"k,t\n" + data)


@examples("read_csv, mutated")
@given(mutated(CSV, [b'"', b"\r", b"\n", b",", b"\x00", b"\xff", b"1_0", b"\xd9\xa3", b"1e999", b"9" * 25]))
def test_csv_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _read_csv(data)


def _read_ndjson(data: bytes) -> None:
    rows = list(read_ndjson(SPEC, Counted(io.BytesIO(data), "f"), "f"))
    assert all(row.strip() for row in rows)
    decode_json(SPEC.model.fields, rows)


@examples("read_ndjson, arbitrary bytes")
@given(arbitrary())
def test_ndjson_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _read_ndjson(data)


@examples("read_ndjson, mutated")
@given(mutated(NDJSON, JSON))
def test_ndjson_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _read_ndjson(data)
