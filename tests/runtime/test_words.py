"""Topics of words through the real worker and masters: every word once, and the same digits as without a bus."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streaminfer import fit, parse_spec
from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime import names
from streaminfer.runtime.connection import Connection
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.word_rows import WordRows
from streaminfer.variational.increment import ByKey, Increment
from streaminfer.wire import increments, key_columns
from streaminfer.wire.errors import BadValue
from tests.runtime.word_rig import SERIAL, WordRig, documents, n_words, word_spec

BOTH = pytest.mark.parametrize("method", ["svb", "svi"])
SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])


def assert_identical(rig: WordRig, rows: list[dict[str, Any]]) -> None:
    found, expected = rig.found(), fit(rig.spec, rows)
    assert found.vocabulary == expected.vocabulary
    assert found.n_events == len(rows)
    np.testing.assert_array_equal(found.posterior.natural, expected.posterior.natural)
    assert found.snapshot.score == expected.snapshot.score


@BOTH
@SHARDS
def test_topics_are_those_of_a_fit_to_the_last_digit(method: str, shards: int) -> None:
    rig = WordRig(word_spec(model={"shards": shards}, method=method, **SERIAL))
    rows = documents(80)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    assert_identical(rig, rows)


@BOTH
def test_crashes_change_no_digit(method: str) -> None:
    """Masters and workers are replaced between any two steps, and new words come all the time."""
    rig = WordRig(word_spec(model={"shards": 2}, method=method, **SERIAL))
    rows = documents(160)
    rng = np.random.default_rng(5)
    master, worker = rig.master(), rig.worker()
    for i in range(0, 160, 16):
        rig.send_rows(rows[i : i + 16])
        for _ in range(int(rng.integers(1, 5))):
            rig.run(master, worker, rounds=int(rng.integers(1, 3)))
            if rng.random() < 0.5:
                rig.clock.advance(30)  # the member that is left behind is expelled
                master = rig.master()
            if rng.random() < 0.5:
                rig.clock.advance(30)
                worker = rig.worker(f"w{rng.integers(1000)}")
    rig.run(master, worker, rounds=60)
    assert_identical(rig, rows)


@SHARDS
@pytest.mark.parametrize("partitions", [1, 3])
def test_every_word_is_in_the_topics_once(shards: int, partitions: int) -> None:
    rig = WordRig(word_spec(partitions, {"shards": shards}))
    rows = documents(240)
    for i in range(partitions):
        rig.send_rows(rows[80 * i : 80 * (i + 1)], i)
    if partitions == 1:
        rows = rows[:80]
    workers = [rig.worker(f"w{i}") for i in range(2)]
    rig.run(rig.master(), *workers, rounds=60)
    rig.assert_all_words(rows)


def test_topics_are_told_apart() -> None:
    rig = WordRig(word_spec(model={"topics": 2}))
    rows = documents(160, rare=False)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=60)
    found = rig.found()
    assert found.topics is not None
    tops = [{word for word, _ in top} for top in found.topics.top(6)]
    assert sorted(map(sorted, tops)) == sorted(map(sorted, ({*documents_words(0)}, {*documents_words(1)})))
    assert found.log_predictive({"words": ["lake", "hill", "lake", "peak"] * 5}) > found.log_predictive(
        {"words": ["lake", "soup", "hill", "rice"] * 5}
    )


def documents_words(subject: int) -> list[str]:
    from tests.runtime.word_rig import MEALS, PLACES

    return (PLACES, MEALS)[subject]


def test_only_words_that_changed_are_in_a_snapshot_and_read_again() -> None:
    rig = WordRig(word_spec(model={"shards": 1}))
    rig.send_rows([{"words": ["a", "b", "c"]}] * 8)
    master, worker = rig.master(), rig.worker()
    rig.run(master, worker)
    before = len(rig.records("posterior"))
    rig.send_rows([{"words": ["c", "d"]}] * 8)
    rig.run(master, worker)
    keys = [record.key for record in rig.records("posterior")[before:]]
    assert keys == [b"key/0/c", b"key/0/d", b"manifest"]
    assert (rig.value("master_keys"), rig.value("master_dirty_keys")) == (4, 2)
    assert (rig.value("master_events"), rig.value("worker_events_total")) == (16, 16)


def test_all_shards_count_all_documents_and_one_has_the_score() -> None:
    rig = WordRig(word_spec(model={"shards": 3}))
    rows = documents(40)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    blocks = rig.blocks()
    assert [block.snapshot.n_events for block in blocks] == [40] * 3
    assert [block.snapshot.score != 0 for block in blocks] == [True, False, False]
    assert sum(block.snapshot.n_keys for block in blocks) == len(rig.found().vocabulary) == rig.value("master_keys")
    assert (rig.value("master_events"), rig.value("master_effective_events")) == (40, 40)
    assert rig.found().to_json()["n_events"] == 40


def test_bad_documents_are_dead_letters_and_empty_ones_events() -> None:
    rig = WordRig(word_spec())
    rig.send(b'{"words": 1}', b'{"words": ["a", ""]}', b'{"words": {"a": 0}}', b"{}", b'{"words": []}')
    rig.send_rows([{"words": ["a"]}] * 3)
    rig.run(rig.master(), rig.worker())
    found = rig.found()
    assert (found.n_events, found.snapshot.n_dead_lettered, found.vocabulary) == (4, 4, ["a"])
    assert len(rig.records("dead-letters")) == 4


def test_documents_without_any_word_leave_the_start_to_those_that_have_some() -> None:
    rig = WordRig(word_spec(**SERIAL))
    rows = [{"words": []}] * 16 + documents(32)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    assert_identical(rig, rows)
    topics = rig.found().posterior.natural
    assert not np.allclose(topics[0], topics[1]), "from equal topics no update ever leaves"


def test_a_fixed_vocabulary_passes_over_other_words() -> None:
    words = ["lake", "hill", "never-used", "soup"]
    rig = WordRig(word_spec(model={"vocabulary": words, "shards": 2}, **SERIAL))
    rows = documents(40)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    assert_identical(rig, rows)
    found = rig.found()
    assert found.vocabulary == sorted(words)
    assert found.posterior.natural.shape == (3, 4)
    unused = found.posterior.natural[:, found.vocabulary.index("never-used")]
    np.testing.assert_array_equal(unused, 0.01)
    known = [[word for word in row["words"] if word in words] for row in rows if isinstance(row["words"], list)]
    known += [
        [word for word, n in row["words"].items() for _ in range(n) if word in words]
        for row in rows
        if isinstance(row["words"], dict)
    ]
    np.testing.assert_allclose(found.posterior.natural.sum() - 0.01 * 12, sum(map(len, known)), rtol=1e-9)


def increment(rig: WordRig, labels: list[bytes], statistics: Any, counts: Any = None, **more: Any) -> Increment:
    k = len(labels)
    counts = np.ones(k) if counts is None else np.array(counts, dtype=np.float64)
    nothing = [np.zeros(k) for _ in range(4)]
    made = Increment(
        fingerprint=rig.spec.fingerprint, writer="odd", topic=names.data_topic(rig.spec), partition=0, begin=0, end=8,
        n_events=8, n_dead_lettered=0, n_lost=0, base_version=1, score=0.0,
        statistics=np.array(statistics, dtype=np.float64).reshape(k, 3), keys=ByKey(labels, counts, *nothing),
    )  # fmt: skip
    return replace(made, **more)


def of_shard(rig: WordRig, shard: int) -> bytes:
    return next(word for word in (b"%d" % i for i in range(100)) if names.shard_of(rig.spec, word) == shard)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"counts": [0.0]}, "counts of words must be whole"),
        ({"counts": [1.5]}, "counts of words must be whole"),
        ({"counts": [2.0**53 * 9]}, "counts of words must be whole"),
        ({"labels": [b"\xff"]}, "no UTF-8"),
        ({"labels": [b""]}, "keys must have 1 to 256 bytes"),
        ({"labels": [b"lake", b"lake"], "statistics": np.ones((2, 3)) / 3}, "a key stands twice"),
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
    assert (found.n_events, found.snapshot.n_rejected) == (8, 8)
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
    assert made.keys is not None
    data = key_columns.pack(made.keys, made.statistics, False)
    assert key_columns.unpack(data, 3, False, 1, words=True)[0].counts.tolist() == [5, 7]
    with pytest.raises(BadValue):
        key_columns.unpack(data, 3, False, 1)
    with pytest.raises(BadValue):
        key_columns.unpack(data, 3, False, 8)


def test_a_restore_counts_the_words() -> None:
    rig = WordRig(word_spec(snapshot_ms=1))
    rig.send_rows(documents(32))
    master = rig.master()
    rig.run(master, rig.worker(), rounds=20)
    master.close()
    log = rig.broker.log(Partition(rig.topic("posterior"), 0))
    last = max(i for i, record in enumerate(log.records) if record.key == b"key/0/lake")
    first = min(i for i, record in enumerate(log.records) if record.key == b"key/0/lake")
    assert first < last
    old = log.records[first]
    log.records[last] = replace(log.records[last], value=old.value)
    with pytest.raises(Fatal, match="are not those of the newest snapshot"):
        rig.run(rig.master(), rounds=3)


def test_a_reader_shows_nothing_while_rows_are_missing() -> None:
    """A log that is compacted while it is read: rows of an older snapshot are gone, newer ones are further on."""
    rig = WordRig(word_spec())
    rows = documents(64)
    master, worker = rig.master(), rig.worker()
    rig.send_rows(rows[:8])
    rig.run(master, worker, rounds=3)
    reader = WordRows(rig.spec, rig.bus)
    assert reader.catch_up() is not None
    rig.send_rows(rows[8:])
    rig.run(master, worker, rounds=60)
    rig.broker.compact(rig.topic("posterior"))
    ends = rig.bus.ends(rig.topic("posterior"))[0]
    seen = []
    while reader.position < ends:
        reader.poll(0.0)
        block = reader.block
        if block is not None:
            held = block.arena.statistics[: len(block.arena)].sum()
            np.testing.assert_allclose(held, block.snapshot.statistics[:3].sum(), rtol=1e-9)
            seen.append(block.snapshot.version)
    assert seen[-1] == rig.found().version
    rig.assert_all_words(rows)


def test_rows_wait_for_their_manifest() -> None:
    rig = WordRig(word_spec())
    rig.send_rows(documents(16))
    rig.run(rig.master(), rig.worker(), rounds=20)
    reader = WordRows(rig.spec, rig.bus)
    reader.catch_up()
    before = reader.arena.statistics.copy()
    row = next(record for record in rig.records("posterior") if record.key == b"key/0/lake")
    rig.bus.publish([Output(rig.topic("posterior"), row.value, row.key, 0)])
    reader.catch_up()
    np.testing.assert_array_equal(reader.arena.statistics, before)
    assert reader.block is not None


def test_a_minibatch_with_too_many_words_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.runtime.word_minibatch.INCREMENT_BYTES", 600)
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


def test_positions_without_events_pass() -> None:
    rig = WordRig(word_spec(model={"shards": 2}, method="svi"))
    rig.send(*[b"no document"] * 8)
    rows = documents(8)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=20)
    found = rig.found()
    assert (found.n_events, found.snapshot.n_dead_lettered, found.snapshot.staleness) == (8, 8, 0)


def test_a_large_posterior_prints_its_likeliest_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = WordRig(word_spec())
    rows = documents(40)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    found = rig.found()
    document = json.loads(json.dumps(found.to_json()))
    assert not document["truncated"]
    assert document["parameters"]["vocabulary"] == found.vocabulary
    np.testing.assert_array_equal(document["natural"], found.posterior.natural)
    np.testing.assert_allclose(np.sum(document["parameters"]["topics"]["mean"], axis=1), 1.0)
    monkeypatch.setattr("streaminfer.runtime.topics_json.MOST_NUMBERS", 10)
    document = json.loads(json.dumps(found.to_json()))
    assert document["truncated"]
    assert document["parameters"]["n_words"] == len(found.vocabulary)
    for k, top in enumerate(document["parameters"]["topics"]["top"]):
        means = found.mean["topics"][k]
        assert len(top) == 20
        assert [p for _, p in top] == sorted(means.tolist(), reverse=True)[:20]
        assert all(means[found.vocabulary.index(word)] == p for word, p in top)


def test_a_subscriber_has_every_posterior_with_its_words() -> None:
    rig = WordRig(word_spec(model={"shards": 2}))
    master, worker = rig.master(), rig.worker()
    rig.send_rows(documents(8))
    rig.run(master, worker)
    found = iter(Connection(rig.bus).subscribe(rig.spec, timeout=0.2))
    first = next(found)
    rig.send_rows(documents(8, seed=2))
    rig.run(master, worker)
    second = next(found)
    assert len(second.vocabulary) > len(first.vocabulary)
    assert second.n_events == 16
    total = n_words(documents(8)) + n_words(documents(8, seed=2))
    prior = 0.01 * second.posterior.natural.size
    np.testing.assert_allclose(second.posterior.natural.sum() - prior, total, rtol=1e-9)


def test_draws_have_the_moments() -> None:
    found = fit(word_spec(), documents(24))
    draws = found.sample(np.random.default_rng(1), 4000)["topics"]
    assert draws.shape == (4000, 3, len(found.vocabulary))
    mean, sd = found.mean["topics"], found.sd["topics"]
    error = np.abs(draws.mean(axis=0) - mean) / (sd / np.sqrt(4000))
    assert error.max() < 7, "7 standard errors in 120 numbers, which are no Gaussians"
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.5)


def test_fit_names_the_row_that_is_no_document() -> None:
    from streaminfer.runtime.view import RowError

    with pytest.raises(RowError, match="row 9: words: a list of words must have texts only"):
        fit(word_spec(), [*documents(9), {"words": [1]}])


def test_scores_of_documents_are_watched_for_drift_by_the_first_shard() -> None:
    made = word_spec(model={"shards": 2}, **SERIAL)
    rig = WordRig(parse_spec({**made.document, "drift": {"block_events": 8}}))
    rows = documents(48)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    assert_identical(rig, rows)
    assert [block.snapshot.drift is not None for block in rig.blocks()] == [True, False]
    assert rig.found().drift == fit(rig.spec, rows).drift
