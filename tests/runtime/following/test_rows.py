"""Rows are read many at once, and one that cannot be read takes no other with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.rows import AllRows, decode, readable
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.arena import Entry
from streaminfer.wire import key_records
from streaminfer.wire.errors import WireError
from tests.made import changed
from tests.runtime.keyed_rig import keyed_spec
from tests.runtime.rig import Rig, poisson
from tests.runtime.word_rig import WordRig, documents, word_spec

SPECS = {"single": poisson(), "keyed": keyed_spec(), "words": word_spec()}


@pytest.mark.parametrize("kind", SPECS)
def test_a_spec_has_one_kind(kind: str) -> None:
    found = kind_of(SPECS[kind])
    assert (found.name, found.has_rows, found.together) == (kind, kind != "single", kind == "words")


def _value(spec: Spec, label: bytes, version: int, first: float = 1.0) -> bytes:
    statistics = np.zeros(kind_of(spec).row_size(spec))
    statistics[0] = first
    return key_records.encode(Entry(label, 0, 1.0, 0.0, 1.0, 0.0, statistics), version)


@pytest.mark.parametrize("kind", ["keyed", "words"])
@pytest.mark.parametrize("bad", [set(), {0}, {6}, {2, 3}, set(range(7))], ids=str)
def test_all_but_the_bad_rows_are_read_in_their_order(kind: str, bad: set[int]) -> None:
    spec = SPECS[kind]
    run = [(b"%d" % i, b"junk" if i in bad else _value(spec, b"%d" % i, i + 1)) for i in range(7)]
    told: list[tuple[bytes, WireError]] = []
    found = readable(
        run,
        lambda rows: decode(spec, [label for label, _ in rows], [value for _, value in rows]),
        lambda row, error: told.append((row[0], error)),
    )
    parts = [([label for label, _ in part], decoded) for part, decoded in found]
    good = [i for i in range(7) if i not in bad]
    assert [label for labels, _ in parts for label in labels] == [b"%d" % i for i in good]
    assert [version for _, decoded in parts for version in decoded.versions] == [i + 1 for i in good]
    assert sum(len(decoded.numbers) for _, decoded in parts) == len(good)
    assert [label for label, _ in told] == [b"%d" % i for i in sorted(bad)]
    assert len(parts) == 1 or bad


@pytest.mark.parametrize("kind", ["keyed", "words"])
def test_rows_that_give_no_posterior_are_not_read(kind: str) -> None:
    noun = "key" if kind == "keyed" else "word"
    with pytest.raises(WireError, match=f"a {noun} has statistics that give no posterior"):
        decode(SPECS[kind], [b"a"], [_value(SPECS[kind], b"a", 1, first=-1.0)])


def test_a_row_of_a_word_that_cannot_be_read_is_told_and_nothing_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    rig = WordRig(word_spec())
    rig.send_rows(documents(16))
    rig.run(rig.master(), rig.worker(), rounds=20)
    log = rig.broker.log(Partition(rig.topic("posterior"), 0))
    last = max(i for i, record in enumerate(log.records) if record.key == b"key/0/lake")
    version = key_records.Versions(3).of(b"key/0/lake", log.records[last].value)
    log.records[last] = replace(log.records[last], value=_value(rig.spec, b"lake", version, first=-1.0))
    reader = Follower(rig.spec, rig.bus, rows=AllRows(rig.spec))
    assert reader.catch_up() is None
    assert reader.unreadable is not None
    assert "demo.posterior-0: the row of b'lake' cannot be read: a word has statistics that give" in caplog.text


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"key/x/lake", b"junk", "the record key b'key/x/lake' does not belong to a key"),
        (b"key/0/lake", b"junk", "it has another form"),
        (b"key/1/lake", _value(SPECS["words"], b"lake", 99), "it has another form"),
    ],
)
def test_junk_takes_no_row_of_a_word_away(
    key: bytes, value: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = WordRig(word_spec())
    rig.send_rows(documents(8))
    master, worker = rig.master(), rig.worker()
    rig.run(master, worker)
    reader = Follower(rig.spec, rig.bus, rows=AllRows(rig.spec))
    reader.catch_up()
    rig.bus.publish([Output(rig.topic("posterior"), value, key, 0)])
    rig.send_rows(documents(8, seed=2))
    rig.run(master, worker)
    found = reader.catch_up()
    assert found is not None
    assert found.n_events == 16
    assert f"is not the row of a word: {reason}" in caplog.text


def test_a_snapshot_without_a_posterior_is_not_shown_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """In the words of the model, though no posterior is built of those that have one."""
    rig = Rig(poisson())
    rig.run(rig.master())
    found = rig.snapshot()
    records = rig.records("posterior")
    rig.publish_snapshot(changed(found, version=found.version + 1, n_events=1, statistics=np.array([3.0, 1.0, 0.0])))
    good = records[-1]
    packed = [np.array([each, 1.0, 0.0]).astype("<f8").tobytes() for each in (3.0, -3.0)]
    assert packed[0] in (good.value or b"")
    bad = (good.value or b"").replace(packed[0], packed[1])
    rig.broker.log(good.partition).records[-1] = replace(good, value=bad)
    follower = Follower(rig.spec, rig.bus)
    assert follower.catch_up() is not None
    assert (follower.snapshot and follower.snapshot.version) == found.version
    assert "is not a snapshot: statistic 0 is -3, which no events give" in caplog.text
    assert [each.why for each in follower.in_the_way] == ["statistic 0 is -3, which no events give"]
