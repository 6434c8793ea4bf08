"""Increments of words: what a worker sends, and what a master takes from strangers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.variational.increment import ByKey, Increment
from streaminfer.wire import increments, key_columns
from streaminfer.wire.errors import BadValue
from tests.made import changed, new_increment
from tests.runtime.word_rig import WordRig, documents, word_spec


def increment(rig: WordRig, labels: list[bytes], statistics: Any, counts: Any = None, **more: Any) -> Increment:
    k = len(labels)
    counts = np.ones(k) if counts is None else np.array(counts, dtype=np.float64)
    nothing = [np.zeros(k) for _ in range(4)]
    made = new_increment(
        fingerprint=rig.spec.fingerprint, writer="odd", topic=names.data_topic(rig.spec), begin=0, end=8,
        n_events=8, base_version=1, score=0.0,
        statistics=np.array(statistics, dtype=np.float64).reshape(k, 3), keys=ByKey(labels, counts, *nothing),
    )  # fmt: skip
    return changed(made, **more)


def of_shard(rig: WordRig, shard: int) -> bytes:
    return next(word for word in (b"%d" % i for i in range(100)) if names.shard_of(rig.spec, word) == shard)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"counts": [0.0]}, "counts of words must be whole"),
        ({"counts": [1.5]}, "counts of words must be whole"),
        ({"counts": [2.0**53 * 9]}, "counts of words must be whole"),
        ({"labels": [b"\xff"]}, "not UTF-8"),
        ({"labels": [b""]}, "keys must have 1 to 256 bytes"),
        ({"labels": [b"lake", b"lake"], "statistics": np.ones((2, 3)) / 3}, "a key appears twice"),
        ({"labels": None}, "must be of this shard"),
        ({"statistics": [[np.nan, 0, 0]]}, "not finite"),
        ({"statistics": [[np.inf, 0, 0]]}, "not finite"),
        ({"n_events": 0}, "do not fit into"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_hostile_increment_is_a_dead_letter(change: dict[str, Any], reason: str) -> None:
    rig = WordRig(word_spec(model={"shards": 2}))
    own = of_shard(rig, 0)
    rig.send_rows(documents(8))
    master = rig.master()
    rig.run(master)
    given = {"labels": [own], "statistics": [[0.2, 0.3, 0.5]], **change}
    given["labels"] = [of_shard(rig, 1)] if given["labels"] is None else given["labels"]
    made = increment(rig, **given)
    data = increments.encode(made, 1 << 20)
    rig.bus.publish([Output(rig.topic("increments"), each, b"0", 0) for each in data])
    rig.run(master)
    (letter,) = rig.records("dead-letters")
    assert reason in str(letter.headers) + str(letter.value)
    rig.run(master, rig.worker(), rounds=20)
    rig.assert_all_words(documents(8))


@pytest.mark.parametrize("statistics", [[-0.1, 0.5, 0.5], [1e100, 0, 0], [0.5, 0.5, 0.5]])
def test_an_increment_that_gives_no_posterior_is_rejected(statistics: list[float]) -> None:
    rig = WordRig(word_spec())
    rig.send_rows(documents(16))
    master = rig.master()
    rig.run(master)
    rig.publish(increment(rig, [b"lake"], [statistics]))
    rig.run(master)
    assert rig.outcome("rejected") == 1
    rig.run(master, rig.worker(), rounds=20)
    found = rig.found()
    assert (found.n_events, found.snapshot.counts.n_rejected) == (8, 8)
    assert np.isfinite(found.posterior.natural).all()


def test_a_word_of_no_vocabulary_is_refused() -> None:
    rig = WordRig(word_spec(model={"vocabulary": ["lake"]}))
    rig.send_rows(documents(8))
    master = rig.master()
    rig.run(master)
    rig.publish(increment(rig, [b"other"], [[1.0, 0, 0]]))
    rig.run(master)
    assert len(rig.records("dead-letters")) == 1
    assert rig.found().n_events == 0


def test_words_need_no_event_each_and_keys_do() -> None:
    rig = WordRig(word_spec())
    made = increment(rig, [b"a", b"b"], np.full((2, 3), 0.3), [5, 7])
    assert made.payload.keys is not None
    data = key_columns.pack(made.payload.keys, made.payload.statistics, False)
    assert key_columns.unpack(data, 3, False, 1, words=True)[0].counts.tolist() == [5, 7]
    with pytest.raises(BadValue):
        key_columns.unpack(data, 3, False, 1)
    with pytest.raises(BadValue):
        key_columns.unpack(data, 3, False, 8)


def test_a_minibatch_with_too_many_words_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.tables.learning.INCREMENT_BYTES", 600)
    rig = WordRig(word_spec(model={"shards": 2}))
    rows = documents(32)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=60)
    assert all(end - begin < 8 for begin, end, _ in rig.spans())
    rig.assert_all_words(rows)


def test_increments_have_the_words_of_the_minibatch_only() -> None:
    rig = WordRig(word_spec(model={"topics": 100}))
    rig.send_rows([{"words": [f"w{i}-{j}" for j in range(200)]} for i in range(32)])
    rig.run(rig.master(), rig.worker(), rounds=60)
    assert len(rig.found().vocabulary) == 6400
    sizes = [len(each["statistics"]) for each in rig.increments()]
    assert max(sizes) < 1.1 * (8 * 200 * 100 * 8), "as many rows as the minibatch has words, and not 6,400"
