"""Topics of words through the real worker and masters: every word once, and the same digits as without a bus."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer import fit, parse_spec
from tests.runtime.word_rig import SERIAL, WordRig, documents, word_spec

BOTH = pytest.mark.parametrize("method", ["svb", "svi"])

SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])


def assert_identical(rig: WordRig, rows: list[dict[str, Any]]) -> None:
    found, expected = rig.found(), fit(rig.spec, rows)
    assert found.vocabulary == expected.vocabulary
    assert found.n_events == len(rows)
    np.testing.assert_array_equal(found.posterior.natural, expected.posterior.natural)
    assert found.snapshot.counts.score == expected.snapshot.counts.score


@BOTH
@SHARDS
def test_topics_are_those_of_a_fit_to_the_last_digit(method: str, shards: int) -> None:
    rig = WordRig(word_spec(model={"shards": shards}, method=method, **SERIAL))
    rows = documents(80)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    assert_identical(rig, rows)


@pytest.mark.parametrize(
    "inference", [{}, {"method": "svi"}, {"method": "svi", "step": {"constant": 0.1}}], ids=["svb", "svi", "constant"]
)
def test_crashes_change_no_digit(inference: dict[str, Any]) -> None:
    """Masters and workers are replaced between any two steps, and new words come all the time."""
    rig = WordRig(word_spec(model={"shards": 2}, **inference, **SERIAL))
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
    assert [block.snapshot.counts.score != 0 for block in blocks] == [True, False, False]
    assert (
        sum(block.snapshot.counts.n_keys for block in blocks) == len(rig.found().vocabulary) == rig.value("master_keys")
    )
    assert (rig.value("master_events"), rig.value("master_effective_events")) == (40, 40)
    assert rig.found().to_json()["n_events"] == 40


def test_bad_documents_are_dead_letters_and_empty_ones_events() -> None:
    rig = WordRig(word_spec())
    rig.send(b'{"words": 1}', b'{"words": ["a", ""]}', b'{"words": {"a": 0}}', b"{}", b'{"words": []}')
    rig.send_rows([{"words": ["a"]}] * 3)
    rig.run(rig.master(), rig.worker())
    found = rig.found()
    assert (found.n_events, found.snapshot.counts.n_dead_lettered, found.vocabulary) == (4, 4, ["a"])
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


def test_positions_without_events_pass() -> None:
    rig = WordRig(word_spec(model={"shards": 2}, method="svi"))
    rig.send(*[b"no document"] * 8)
    rows = documents(8)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=20)
    found = rig.found()
    assert (found.n_events, found.snapshot.counts.n_dead_lettered, found.snapshot.counts.staleness) == (8, 8, 0)


def test_scores_of_documents_are_watched_for_drift_by_the_first_shard() -> None:
    made = word_spec(model={"shards": 2}, **SERIAL)
    rig = WordRig(parse_spec({**made.document, "drift": {"block_events": 8}}))
    rows = documents(48)
    rig.send_rows(rows)
    rig.run(rig.master(), rig.worker(), rounds=30)
    assert_identical(rig, rows)
    assert [block.snapshot.drift is not None for block in rig.blocks()] == [True, False]
    assert rig.found().drift == fit(rig.spec, rows).drift


@SHARDS
def test_documents_whose_passes_ran_out_are_counted(shards: int) -> None:
    """One pass of svb is never enough; the others of these minibatches are."""
    rows = documents(80)
    for most, n_unconverged in ((1, 80), (100, 0)):
        rig = WordRig(word_spec(model={"shards": shards}, local_iterations=most, **SERIAL))
        rig.send_rows(rows)
        rig.run(rig.master(), rig.worker(), rounds=30)
        found = rig.found()
        assert found.n_events == 80
        assert found.snapshot.counts.n_unconverged == fit(rig.spec, rows).snapshot.counts.n_unconverged == n_unconverged
