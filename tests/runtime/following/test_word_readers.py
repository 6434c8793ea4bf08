"""A reader of topics of words has all rows of a snapshot or shows none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.rows import AllRows
from streaminfer.runtime.service import Fatal
from tests.runtime.word_rig import WordRig, documents, n_words, word_spec


@pytest.mark.parametrize("compacted", [False, True])
def test_a_restore_counts_the_words(compacted: bool) -> None:
    rig, rows = WordRig(word_spec(snapshot_ms=1)), documents(32)
    rig.send_rows(rows)
    master, worker = rig.master(), rig.worker()
    rig.run(master, worker, rounds=20)
    master.close()
    log = rig.broker.log(Partition(rig.topic("posterior"), 0))
    last = max(i for i, record in enumerate(log.records) if record.key == b"key/0/lake")
    first = min(i for i, record in enumerate(log.records) if record.key == b"key/0/lake")
    assert first < last
    old = log.records[first]
    log.records[last] = replace(log.records[last], value=old.value)
    if compacted:
        rig.broker.compact(rig.topic("posterior"))
        with pytest.raises(Fatal, match=r"are not those of the newest snapshot.*repair SPEC"):
            rig.run(rig.master(), rounds=20)
    else:
        rig.run(rig.master(), worker, rounds=60)
        rig.assert_all_words(rows)


def test_a_reader_shows_nothing_while_rows_are_missing() -> None:
    """A log that is compacted while it is read: rows of an older snapshot are gone, newer ones are further on."""
    rig = WordRig(word_spec())
    rows = documents(64)
    master, worker = rig.master(), rig.worker()
    rig.send_rows(rows[:8])
    rig.run(master, worker, rounds=3)
    held = AllRows(rig.spec)
    reader = Follower(rig.spec, rig.bus, rows=held)
    assert reader.catch_up() is not None
    rig.send_rows(rows[8:])
    rig.run(master, worker, rounds=60)
    rig.broker.compact(rig.topic("posterior"))
    ends = rig.bus.ends(rig.topic("posterior"))[0]
    seen = []
    while reader.position < ends:
        reader.poll(0.0)
        if reader.snapshot is not None:
            total = held.arena.statistics[: len(held.arena)].sum()
            np.testing.assert_allclose(total, reader.snapshot.payload.statistics[:3].sum(), rtol=1e-9)
            seen.append(reader.snapshot.version)
    assert seen[-1] == rig.found().version
    rig.assert_all_words(rows)


def test_rows_wait_for_their_manifest() -> None:
    rig = WordRig(word_spec())
    rig.send_rows(documents(16))
    rig.run(rig.master(), rig.worker(), rounds=20)
    held = AllRows(rig.spec)
    reader = Follower(rig.spec, rig.bus, rows=held)
    reader.catch_up()
    before = held.arena.statistics.copy()
    row = next(record for record in rig.records("posterior") if record.key == b"key/0/lake")
    rig.bus.publish([Output(rig.topic("posterior"), row.value, row.key, 0)])
    reader.catch_up()
    np.testing.assert_array_equal(held.arena.statistics, before)
    assert reader.snapshot is not None


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
    monkeypatch.setattr("streaminfer.runtime.api.topics_document.MOST_NUMBERS", 10)
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
    found = iter(Connection(rig.bus).subscribe(rig.spec, timeout=20.0))
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
    from streaminfer.runtime.api.frames import RowError

    with pytest.raises(RowError, match="row 9: words: a list of words must have texts only"):
        fit(word_spec(), [*documents(9), {"words": [1]}])
