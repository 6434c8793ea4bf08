"""Increments and snapshots by key: round trips, and everything that they must not be."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from streaminfer.runtime.folding.parts import Parts
from streaminfer.spec import parse_spec
from streaminfer.spec.key import MAX_PRIOR, RECORD
from streaminfer.variational import fold
from streaminfer.variational.arena import Entry
from streaminfer.variational.increment import ByKey, Increment, Layout
from streaminfer.wire import increments, key_columns, key_records, snapshots
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.errors import BadValue, WireError
from tests.made import changed
from tests.wire.messages import increment

SIZE = 3
LABELS = (b"a", "ö/ñ".encode(), b"x" * 256)
KEYS = ByKey(LABELS, np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.7e12, 5.0]), np.array([0.0, 1.6e12, 5.0]),
             np.array([1.0, 1.5, 3.0]), np.array([-5.0, 1.7e9, 0.0]))  # fmt: skip
STATISTICS = np.arange(9.0).reshape(3, SIZE) - 2.5


def keyed_increment(keys: ByKey = KEYS, statistics: np.ndarray = STATISTICS, n_events: int = 6) -> Increment:
    made = increment(n_events=n_events, n_dead_lettered=0, n_lost=0)
    return changed(made, end=made.provenance.begin + 20, statistics=statistics, keys=keys)


def read(records: list[bytes], timed: bool, belongs: Callable[[bytes], bool] = lambda _: True) -> Increment:
    parts, found = Parts(Layout(SIZE, timed, labels="keys"), belongs), None
    for record in records:
        assert found is None
        found = parts.add(increments.decode(record))
    assert found is not None
    return found


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("max_bytes", [1 << 20, increments.ENVELOPE + 64])
def test_increments_round_trip(timed: bool, max_bytes: int) -> None:
    records = increments.encode(keyed_increment(), max_bytes, layout=Layout(0, timed=timed))
    assert (len(records) > 1) == (max_bytes < 1 << 20)
    found = read(records, timed)
    assert found.payload.keys is not None
    assert tuple(found.payload.keys.labels) == LABELS
    assert np.array_equal(found.payload.statistics, STATISTICS)
    columns = range(1, 6 if timed else 4)
    assert all(np.array_equal(found.payload.keys[i], KEYS[i]) for i in columns)


def test_an_increment_of_no_keys_round_trips() -> None:
    none = ByKey((), *(np.empty(0) for _ in range(5)))
    found = read(increments.encode(keyed_increment(none, np.empty((0, SIZE)), 0), 1 << 20), False)
    assert found.payload.keys is not None
    assert (len(found.payload.keys.labels), found.payload.statistics.shape) == (0, (0, SIZE))


def column(i: int, *values: float) -> ByKey:
    return KEYS._replace(**{KEYS._fields[i]: np.array(values)})


HOSTILE = {
    "a key appears twice": KEYS._replace(labels=(b"a", b"b", b"a")),
    "keys must have 1 to 256 bytes (got 0": KEYS._replace(labels=(b"", b"b", b"c")),
    "keys must have 1 to 256 bytes (got 1 to 257": KEYS._replace(labels=(b"b", b"c", b"x" * 257)),
    "a key is not UTF-8": KEYS._replace(labels=(b"a", b"\xff", b"c")),
    "counts must be whole": column(1, 1.0, 2.5, 2.5),
    "counts must be whole, at least 1": column(1, 0.0, 3.0, 3.0),
    "those of all keys the 6 events": column(1, 1.0, 2.0, 4.0),
    "stamps must be": column(2, -1.0, 0.0, 0.0),
    "stamps must be milliseconds": column(2, 0.0, 0.0, 1e15),
    "oldest must be": column(3, 0.0, -1.0, 0.0),
    "oldest must be at least 0 and at most the key's stamp": column(3, 1.0, 0.0, 0.0),
    "n_effective must be": column(4, 0.5, 1.0, 1.0),
    "n_effective must be at least 1 and at most": column(4, 1.0, 2.1, 1.0),
    "newest must be": column(5, 0.0, 0.0, 1e12),
    "a number is not finite": column(5, 0.0, np.nan, 0.0),
}


@pytest.mark.parametrize("rule", HOSTILE)
def test_what_no_worker_sends_is_refused(rule: str) -> None:
    records = increments.encode(keyed_increment(HOSTILE[rule]), 1 << 20, layout=Layout(0, timed=True))
    with pytest.raises(BadValue) as caught:
        read(records, True)
    assert rule in str(caught.value)


def test_a_key_of_another_shard_is_refused() -> None:
    records = increments.encode(keyed_increment(), 1 << 20)
    with pytest.raises(BadValue, match="keys must be of this shard"):
        read(records, False, lambda label: label != b"a")


def test_statistics_of_another_size_are_refused() -> None:
    records = increments.encode(keyed_increment(statistics=np.zeros((3, SIZE + 1))), 1 << 20)
    with pytest.raises(BadValue, match="are not the"):
        read(records, False)


def test_columns_that_are_too_large_are_neither_sent_nor_held(monkeypatch: pytest.MonkeyPatch) -> None:
    records = increments.encode(keyed_increment(), increments.ENVELOPE + 64)
    monkeypatch.setattr(key_columns, "MAX_BYTES", 200)
    with pytest.raises(BadValue, match="3 keys of a minibatch have"):
        increments.encode(keyed_increment(), 1 << 20)
    with pytest.raises(BadValue, match="at most 200 bytes"):
        read(records, False)


def test_mutated_columns_are_refused_or_make_sense() -> None:
    """Whatever bytes come: a WireError, or columns that keep all the rules."""
    rng = random.Random(5)
    good = key_columns.pack(KEYS, STATISTICS, True)
    refused = 0
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])])
        try:
            keys, statistics = key_columns.unpack(cut, SIZE, True, 6)
        except WireError:
            refused += 1
            continue
        assert len(set(keys.labels)) == len(keys.labels) == len(statistics)
        assert keys.counts.sum() == 6
        assert np.isfinite(statistics).all()
    assert 1000 < refused < 3000


ENTRY = Entry("ö".encode(), 4, 7.0, 1.7e12, 2.5, 1.7e9, np.array([1.0, -2.0, 1e300]))


@pytest.mark.parametrize("version", [1, 63, 64, 8191, 8192, 2**40])
def test_records_of_keys_round_trip_and_are_avro(version: int) -> None:
    data = key_records.encode(ENTRY, version)
    value = DECLARED.decode("posterior", data)
    assert (value["version"], value["key"], value["manifest"]) == (version, "ö", None)
    found = key_records.decode([ENTRY.label], [data], SIZE)
    assert found.versions == [version]
    assert found.numbers.tolist() == [[7.0, 1.7e12, 2.5, 1.7e9, 1.0, -2.0, 1e300]]


def test_record_keys() -> None:
    assert key_records.place_of(key_records.record_key(b"a/b", 12)) == (b"a/b", 12)
    assert key_records.place_of(b"manifest") is key_records.place_of(None) is key_records.place_of(b"chunk-0") is None
    for bad in (b"key/", b"key/a", b"key/x/a", b"key/1/", b"key/-1/a", b"key/1/" + b"x" * 257, b"key/99999999/a"):
        with pytest.raises(BadValue):
            key_records.place_of(bad)


def test_records_that_are_of_no_key_are_refused() -> None:
    data = key_records.encode(ENTRY, 3)
    for bad in (data[:-1], data + b"\0", b"\0\0\0\0\1" + data[5:], b"\1" + data[1:], b"", data[:5] + data[6:]):
        with pytest.raises(WireError):
            key_records.decode([ENTRY.label], [bad], SIZE)
    with pytest.raises(WireError):
        key_records.decode([b"other"], [data], SIZE)
    for wrong in (ENTRY._replace(n_events=0.0), ENTRY._replace(n_events=1.5), ENTRY._replace(stamp=-1.0),
                  ENTRY._replace(n_effective=-1.0), ENTRY._replace(newest=np.inf)):  # fmt: skip
        with pytest.raises(BadValue):
            key_records.decode([ENTRY.label], [key_records.encode(wrong, 3)], SIZE)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("gaussian", {"fields": [f"x{i}" for i in range(211)]}),
        ("linear_regression", {"features": [f"x{i}" for i in range(210)], "target": "y"}),
        ("categorical", {"field": "c", "categories": [str(i) for i in range(1000)]}),
    ],
)
def test_the_manifest_of_the_largest_keyed_model_is_one_record(kind: str, options: dict[str, object]) -> None:
    """A follower of keys reads no chunks."""
    key, inference = {"field": "city", "default": "pooled"}, {"minibatch": 1}
    spec = parse_spec({"name": "demo", "model": {"kind": kind, **options}, "key": key, "inference": inference})
    model = spec.model
    natural = model.posterior(model.empty()).natural
    frontier, stamps = dict.fromkeys(range(1024), 2**40), dict.fromkeys(range(1024), 2**41)
    start = fold.start(model, spec.fingerprint)
    snapshot = changed(start, version=1, prior="x" * MAX_PRIOR, positions=frontier, stamps=stamps)
    records = snapshots.encode(snapshot, natural, snapshots.About("demo", kind, "f", "svb", "exact"), RECORD)
    assert [key for key, _ in records] == [snapshots.MANIFEST]
    assert len(records[0][1]) <= RECORD
    assert 45_056 - model.size < 2 * 212 or kind == "categorical"
