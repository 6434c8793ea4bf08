"""Inputs made to be large: none costs more than 64 MiB (one kind: 128) or runs away."""

from __future__ import annotations

import io
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from streaminfer.models.events import Field
from streaminfer.runtime.folding import parts
from streaminfer.runtime.loading.files import Counted, FileError, read_csv, read_ndjson
from streaminfer.spec import SpecError, load_spec, parse_spec
from streaminfer.variational.increment import Layout
from streaminfer.wire import dead_letters, increments
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.errors import BadBody, WireError
from streaminfer.wire.events.json_events import decode_json
from streaminfer.wire.sampled import draws, sampler_states
from streaminfer.wire.snapshots import Assembler
from tests.wire import chain_messages
from tests.wire.messages import FINGERPRINT, increment_record, snapshot_record

MOST_BYTES = 64 << 20
MOST_SECONDS = 10.0
"""Seconds of this process: ten times what the slowest takes, far below what would grow beyond the input."""
MIB = 1 << 20


def _long(number: int) -> bytes:
    """Avro's zigzag varint."""
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _bounded(act: Callable[[], object], most_bytes: int = MOST_BYTES) -> None:
    """Time without and memory with tracing, which slows everything down."""
    began = time.process_time()
    act()
    assert time.process_time() - began < MOST_SECONDS
    tracemalloc.start()
    try:
        act()
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


FRAME = {"increments": b"\x00\x00\x00\x00\x01", "posterior": b"\x00\x00\x00\x00\x07"}
HEAD = _long(6) + _long(0) + _long(0) + _long(1) + 6 * _long(0) + 8 * _long(0) + bytes(8) + _long(0)
"""A snapshot up to the count of its frontier: no payload, empty texts, all numbers 0."""
AVRO = {
    "string of 2^60": ("increments", _long(2**60)),
    "string of -2^60": ("increments", _long(-(2**60))),
    "string of -1 before 1 MiB": ("increments", _long(-1) + bytes(MIB - 99)),
    "endless integer": ("increments", b"\xff" * (MIB - 99)),
    "payload of 2^60": ("posterior", _long(1) + _long(0) + _long(2**60)),
    "array of 2^40": ("posterior", HEAD + _long(2**40) + bytes(1000)),
    "array of -2^40": ("posterior", HEAD + _long(-(2**40)) + _long(2**40) + bytes(1000)),
    "frontier of 2^40 before 1 MiB": ("posterior", HEAD + _long(2**40) + bytes([2]) * (MIB - 99)),
    "frontier of very many blocks": ("posterior", HEAD + (_long(1) + 5 * _long(0)) * (MIB // 6 - 99)),
}


@pytest.mark.parametrize("case", AVRO)
def test_avro(case: str) -> None:
    topic, body = AVRO[case]

    def act() -> None:
        with pytest.raises(BadBody):
            DECLARED.decode(topic, FRAME[topic] + body)

    # An entry of the frontier has at least five bytes and becomes a dict, so a full record of them may take 100 MiB.
    _bounded(act, 2 * MOST_BYTES if "frontier" in case else MOST_BYTES)


def test_the_head_of_the_array_cases_is_a_snapshot_up_to_there() -> None:
    """With an empty frontier, one chunk version, 3 statistics and no keys, steps, batches and drift after it the bytes
    are read to the end."""
    rest = b"".join(map(_long, (0, 1, 6, 0, 3))) + bytes(10)
    value = DECLARED.decode("posterior", FRAME["posterior"] + HEAD + rest)
    assert value["manifest"]["frontier"] == []
    assert value["manifest"]["chunk_versions"] == [6]


JSON = {
    "nesting of 100,000": b"[" * 100_000,
    "objects nested 100,000 deep": b'{"k":' * 100_000,
    "closed nesting": b"[" * 100_000 + b"]" * 100_000,
    "a number of a million digits": b'{"k":' + b"9" * 10**6 + b"}",
    "a fraction of a million digits": b'{"k":0.' + b"1" * 10**6 + b"}",
    "an exponent of a million digits": b'{"k":1e' + b"9" * 10**6 + b"}",
    "a string of 1 MiB": b'{"k":"' + b"x" * (MIB - 8) + b'"}',
    "a name of 1 MiB": b'{"' + b"x" * (MIB - 6) + b'":1}',
    "escapes": b'{"k":"' + b"\\u0041" * (MIB // 6 - 2) + b'"}',
    "half a million lists": b'{"k":[' + b"[]," * (MIB // 3 - 5) + b"0]}",
    "many small objects": b"[" + b'{"":0},' * (MIB // 7 - 5) + b"0]",
    "many numbers": b"[" + b"1.," * 100 + b"1e1," * (MIB // 4 - 200) + b"0]",
    "more than a record": b" " * (4 * MIB),
}


@pytest.mark.parametrize("case", JSON)
def test_json(case: str) -> None:
    def act() -> None:
        assert len(decode_json((Field("k", "count"),), [JSON[case]]).bad) == 1

    _bounded(act)


def test_parts_of_ever_new_writers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the longest texts, what is held stays near the limit, which is 4 MiB here for the test's sake."""
    monkeypatch.setattr(parts, "MAX_BYTES", 4 << 20)
    text = "\U0001f600" * 290
    common = {"topic": text, "fingerprint": text, "parts": 3, "part": 0, "statistics": bytes(8)}
    records = [increment_record(writer=f"{text}{i}", **common) for i in range(5000)]

    def act() -> None:
        held = parts.Parts(Layout(3))
        for record in records:
            assert held.add(increments.decode(record)) is None

    _bounded(act, 8 << 20)


def test_parts_without_end_are_refused() -> None:
    held, refused = parts.Parts(Layout(3)), 0
    for i in range(10_000):
        try:
            held.add(increments.decode(increment_record(parts=10_000, part=i, statistics=b"")))
        except WireError:
            refused += 1
    assert refused == 10_000


def test_chunks_without_end_are_refused() -> None:
    chunk = {"version": 1, "manifest": None, "payload": bytes(MIB)}
    records = [DECLARED.encode("posterior", {**chunk, "chunk": i}) for i in range(20)]

    def act() -> None:
        assembler = Assembler(FINGERPRINT, 3)
        for record in records * 10:
            with pytest.raises(WireError):
                assembler.add(record)

    _bounded(act)


def test_draws_and_states_that_announce_too_much_are_refused() -> None:
    """Whatever a first part says of the rest, nothing is made ready for it."""
    key, first = chain_messages.draws_record(n_draws=99_999, n_log_density=0, end=2**50, parts=10_000, log_density=b"")
    state_key, head = chain_messages.head_record({"n_values": 2**50, "setup_parts": 9_999})

    def act() -> None:
        assert draws.Assembler(FINGERPRINT, chain_messages.UNIT, 300).add(key, first) is None
        with pytest.raises(WireError, match="n_draws must fit a block"):
            draws.Assembler(FINGERPRINT, chain_messages.UNIT, 1000).add(key, first)
        with pytest.raises(WireError):
            sampler_states.Shelf(FINGERPRINT, chain_messages.UNIT, 2**53).add(state_key, head)

    _bounded(act)


def test_spans_of_a_full_record() -> None:
    spans = [{"partition": 2 * i + 1, "start": 0, "end": 0} for i in range(MIB // 6)]
    key, data = chain_messages.draws_record(frontier=spans, n_events=0)
    assert len(data) < MIB

    def act() -> None:
        assert draws.Assembler(FINGERPRINT, chain_messages.UNIT, 3).add(key, data) is not None

    _bounded(act, 2 * MOST_BYTES)


def test_a_manifest_of_a_million_chunks_is_refused() -> None:
    def act() -> None:
        with pytest.raises(WireError):
            Assembler(FINGERPRINT, 3).add(snapshot_record({"chunk_versions": [1] * 10**5}, chunk=10**5 - 1))

    _bounded(act)


def test_dead_letters() -> None:
    ours = dead_letters.DeadLetter("t", 1, 2, "r", b"").to_headers()
    many = (*ours[:2], ("streaminfer-offset", b"9" * MIB), *ours[3:], *((f"h{i}", b"") for i in range(10_000)))

    def act() -> None:
        with pytest.raises(WireError):
            dead_letters.decode(b"", many)

    _bounded(act)


SPEC = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
LINE = b"9" * 999 + b"\n"
FILES = {
    "one endless line": b"k\n" + b"9" * (8 * MIB),
    "one endless quoted field": b'k\n"' + LINE * 8000,
    "one endless row of quoted fields": b'k\n"' + (LINE + b'","') * 8000,
    "one endless header": b"k," * (4 * MIB),
    "blank lines": b"k\n" + b"\n" * 10**5,
}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("reader", [read_csv, read_ndjson])
def test_files(case: str, reader: Callable[..., object]) -> None:
    data = FILES[case]
    stream = io.BytesIO(data)

    def act() -> None:
        stream.seek(0)
        with suppress(FileError):
            for _ in reader(SPEC, Counted(stream, "f"), "f"):  # type: ignore[attr-defined]
                pass

    _bounded(act)


SPECS = {
    "nesting": b"[" * 1000,
    "a long name": b"name: " + b"x" * 65_000,
    "a long kind": b"name: a\nmodel: {kind: " + b"poisson" * 9_000 + b"}",
    "a number of 60,000 digits": b"name: " + b"9" * 60_000,
    "a long hexadecimal number": b"name: 0x" + b"f" * 65_000,
}


@pytest.mark.parametrize("case", SPECS)
def test_specs(case: str, tmp_path: Path) -> None:
    """PyYAML takes a while, so a sixteenth of the largest file and of the memory stand for the whole."""
    path = tmp_path / "spec.yaml"
    path.write_bytes(SPECS[case])
    tracemalloc.start()
    try:
        with pytest.raises(SpecError):
            load_spec(path)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES / 16
    finally:
        tracemalloc.stop()
