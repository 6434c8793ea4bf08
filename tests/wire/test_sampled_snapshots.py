"""Snapshots of draws as records: moments, retained draws and what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.sampling.pooled import pooling
from streaminfer.sampling.pooled.shown import ChainShown, Fixed, Part, Sampled
from streaminfer.sampling.units import Span
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import snapshots
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.errors import BadValue
from streaminfer.wire.sampled import shown as wire
from streaminfer.wire.snapshots import Assembler
from tests.made import new_snapshot
from tests.wire.chain_messages import SIZE, VALUES, shown
from tests.wire.messages import FINGERPRINT, NATURAL, snapshot_record

ABOUT = snapshots.About("demo", "poisson", "draws", "sgld", "sampled")
STATISTICS = np.arange(float(pooling.statistics_size(SIZE)))
CHUNKED = snapshots.ENVELOPE + 1000


def snapshot(sampled: Sampled, statistics: Any = STATISTICS, **changes: Any) -> Snapshot:
    fields = {"fingerprint": FINGERPRINT, "version": 6, "n_events": 240, "positions": {0: 90, 1: 60}, "created_at": 77}
    return new_snapshot(**{**fields, "starts": {0: 3, 1: 10}, "statistics": statistics, "sampled": sampled, **changes})


def reader(size: int = SIZE) -> Assembler:
    return Assembler(FINGERPRINT, pooling.statistics_size(size), draw_size=size)


def same(found: Snapshot | None, given: Snapshot) -> None:
    assert found is not None
    one, other = found.payload, given.payload
    np.testing.assert_array_equal(one.statistics, other.statistics)
    assert one.sampled is not None
    assert other.sampled is not None
    assert one.sampled.shown == other.sampled.shown
    np.testing.assert_array_equal(one.sampled.draws, other.sampled.draws)
    assert one.sampled.draws.shape == other.sampled.draws.shape
    assert (found.frontier, found.counts, found.version) == (given.frontier, given.counts, given.version)
    assert one.clocks == {}


@pytest.mark.parametrize("max_bytes", [1 << 20, CHUNKED])
@pytest.mark.parametrize("sampled", [Sampled(VALUES, shown()), Sampled(np.empty((0, SIZE)))])
def test_a_snapshot_of_draws_round_trips(sampled: Sampled, max_bytes: int) -> None:
    given = snapshot(sampled)
    records = snapshots.encode(given, NATURAL, ABOUT, max_bytes)
    reading = reader()
    *before, last = [reading.add(data) for _, data in records]
    assert before == [None] * len(before)
    same(last, given)
    manifest = DECLARED.decode("posterior", records[-1][1])["manifest"]
    assert manifest["n_statistics"] == len(STATISTICS)
    assert manifest["sampling"]["n_retained"] == len(sampled.draws)


@pytest.mark.parametrize("size", [50, 200, 1000])
def test_retained_draws_in_chunks_round_trip(size: int) -> None:
    rng = np.random.default_rng(4)
    draws = rng.normal(size=(min(1000, pooling.MOST_BYTES // (8 * size)), size))
    given = snapshot(Sampled(draws, shown()), rng.normal(size=pooling.statistics_size(size)))
    records = snapshots.encode(given, NATURAL, ABOUT, CHUNKED * 2)
    assert len(records) > 1
    assert max(len(data) for _, data in records) <= CHUNKED * 2
    reading = reader(size)
    same([reading.add(data) for _, data in records][-1], given)


def test_there_is_room_for_what_is_said_of_many_chains() -> None:
    """As many chains, partitions and subposteriors as there may be, with the largest numbers."""
    most, latest = 1 << 53, 253_402_300_799_999
    spans = [Span(i, most, most) for i in range(1024)]
    said = shown(
        segments=tuple(Fixed(j, 2**31 - 1, (spans[j],), latest, 1e11) for j in range(1024)),
        subposteriors=tuple(Part(j, 2**31 - 1, most, most, 1e300, True) for j in range(1024)),
        chains=tuple(ChainShown(u, "waiting", most, most, 0) for u in range(2**16, 2**16 + 8192)),
    )
    given = snapshot(Sampled(VALUES, said), positions=dict.fromkeys(range(1024), 2**62), starts={}, version=2**62)
    for max_bytes in (1 << 20, snapshots.ENVELOPE + wire.most_bytes(Sampled(VALUES, said)) + 8):
        records = snapshots.encode(given, NATURAL, ABOUT, max_bytes)
        assert max(len(data) for _, data in records) <= max_bytes
        reading = reader()
        same([reading.add(data) for _, data in records][-1], given)
    with pytest.raises(BadValue, match="does not fit into a record"):
        snapshots.encode(given, NATURAL, ABOUT, snapshots.ENVELOPE + 1000)


def test_only_a_posterior_of_draws_says_sampling() -> None:
    ((_, data),) = snapshots.encode(snapshot(Sampled(VALUES, shown())), NATURAL, ABOUT, 1 << 20)
    text = "sampling must be there if and only if the posterior is made of draws"
    with pytest.raises(BadValue, match=text):
        Assembler(FINGERPRINT, len(STATISTICS)).add(data)
    with pytest.raises(BadValue, match=text):
        Assembler(FINGERPRINT, 3, draw_size=1).add(snapshot_record())


def test_what_cannot_be_shown_is_refused() -> None:
    ((_, data),) = snapshots.encode(snapshot(Sampled(VALUES, shown())), NATURAL, ABOUT, 1 << 20)
    value = DECLARED.decode("posterior", data)
    for changes, text in [
        ({"n_retained": 1}, "n_retained must be of 3"),
        ({"segment": -2}, "segment must be -1 or more"),
    ]:
        sampling = {**value["manifest"]["sampling"], **changes}
        bad = {**value, "manifest": {**value["manifest"], "sampling": sampling}}
        with pytest.raises(BadValue, match=text):
            reader().add(DECLARED.encode("posterior", bad))
    same(reader().add(data), snapshot(Sampled(VALUES, shown())))


def test_no_more_chunks_are_held_than_draws_may_have() -> None:
    reading = reader()
    chunk = {"version": 1, "payload": bytes(1 << 19), "manifest": None}
    for i in range(16):
        reading.add(DECLARED.encode("posterior", {**chunk, "chunk": i}))
    with pytest.raises(BadValue, match="but the model has 13 statistics"):
        reading.add(DECLARED.encode("posterior", {**chunk, "chunk": 16}))
