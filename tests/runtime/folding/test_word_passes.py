"""Several passes over documents through the real worker and master: the same digits as without a bus."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.bus.protocol import Output
from streaminfer.cli.snapshot import print_summary
from streaminfer.runtime import names
from streaminfer.runtime.folding import statistics_store
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.tables import kinds, learning, words
from tests.runtime.word_rig import SERIAL, WordRig, documents, n_words, word_spec

METHODS = pytest.mark.parametrize("method", ["svi", "memoized"])
EPOCHS = 3


def spec_of(method: str, **inference: Any) -> Spec:
    return word_spec(method=method, epochs=EPOCHS, **{**SERIAL, **inference})


def settled(rig: WordRig, *services: Any) -> None:
    """Until the last pass is at its end; data is at rest after a while of the clock."""
    for _ in range(200):
        rig.run(*services, rounds=2)
        rig.clock.advance(0.5)


def assert_identical(rig: WordRig, rows: list[dict[str, Any]]) -> None:
    found, expected = rig.found(), fit(rig.spec, rows)
    assert (found.n_events, found.snapshot.frontier.epoch) == (len(rows), EPOCHS - 1)
    assert found.snapshot.payload.n_batches == expected.snapshot.payload.n_batches
    np.testing.assert_array_equal(found.posterior.natural, expected.posterior.natural)


@METHODS
def test_topics_are_those_of_a_fit_to_the_last_digit(method: str) -> None:
    rig, rows = WordRig(spec_of(method)), documents(80)
    rig.send_rows(rows)
    settled(rig, rig.master(), rig.worker())
    assert_identical(rig, rows)


@METHODS
def test_crashes_change_no_digit(method: str) -> None:
    rig, rows = WordRig(spec_of(method)), documents(80)
    rig.send_rows(rows)
    rng = np.random.default_rng(7)
    master, worker = rig.master(), rig.worker()
    epochs = set()
    for _ in range(60):
        rig.run(master, worker, rounds=int(rng.integers(1, 4)))
        rig.clock.advance(0.5)
        blocks = rig.blocks()
        epochs.update(block.snapshot.frontier.epoch for block in blocks)
        if rng.random() < 0.3:
            rig.clock.advance(30)
            master = rig.master()
        if rng.random() < 0.3:
            rig.clock.advance(30)
            worker = rig.worker(f"w{rng.integers(1000)}")
    settled(rig, master, worker)
    assert len(epochs) > 1, "nothing was replaced in a later pass"
    assert_identical(rig, rows)


def test_several_partitions_and_workers_count_every_word_once() -> None:
    rig = WordRig(word_spec(3, method="memoized", epochs=EPOCHS))
    rows = documents(120)
    for i in range(3):
        rig.send_rows(rows[40 * i : 40 * (i + 1)], i)
    settled(rig, rig.master(), rig.worker("w0"), rig.worker("w1"))
    rig.assert_all_words(rows)
    assert rig.found().snapshot.frontier.epoch == EPOCHS - 1


def test_documents_that_come_after_the_passes_are_added() -> None:
    rig, rows = WordRig(spec_of("memoized")), documents(40)
    rig.send_rows(rows)
    master, worker = rig.master(), rig.worker()
    settled(rig, master, worker)
    more = documents(16, seed=2)
    rig.send_rows(more)
    settled(rig, master, worker)
    rig.assert_all_words([*rows, *more])
    assert n_words(more) > 0


def statistics(rig: WordRig) -> list[Any]:
    return rig.records("statistics")


def test_only_batches_that_changed_are_written() -> None:
    rig, rows = WordRig(spec_of("memoized")), documents(24)
    rig.send_rows(rows)
    settled(rig, rig.master(), rig.worker())
    keys = [record.key for record in statistics(rig)]
    assert sorted(keys) == sorted([b"0/0/0", b"0/8/0", b"0/16/0"] * EPOCHS)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("fault", ["missing", "other bytes", "older", "foreign"])
def test_batches_that_are_not_those_of_the_snapshot(fault: str, compacted: bool) -> None:
    """An older snapshot is restored, and all comes out right; when compaction has left none, the remedy is named."""
    rig, rows = WordRig(spec_of("memoized", minibatch=12)), documents(24)
    rig.send_rows(rows)
    settled(rig, rig.master(), rig.worker())
    topic = names.topic(rig.spec, "statistics")
    first = next(record.value for record in statistics(rig) if record.key == b"0/0/0")
    value = {"missing": None, "older": first}.get(fault, json.dumps({}).encode())
    rig.bus.publish([Output(topic, value, b"anything" if fault == "foreign" else b"0/0/0", 0)])
    if compacted:
        for name in ("statistics", "posterior"):
            rig.broker.compact(rig.topic(name))
    rig.clock.advance(30)
    if compacted and fault != "foreign":
        with pytest.raises(Fatal, match=r"the batches on it are not those of the posterior's version.* repair SPEC"):
            rig.run(rig.master(), rounds=30)
        return
    settled(rig, rig.master(), rig.worker("b"))
    rig.assert_all_words(rows)
    assert rig.found().n_events == 24


def test_batches_are_restored_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, rows = WordRig(spec_of("memoized")), documents(80)
    rig.send_rows(rows)
    settled(rig, rig.master(), rig.worker())
    monkeypatch.setattr(statistics_store, "STEP_BYTES", 1)
    monkeypatch.setattr(statistics_store, "STEP", 1)
    rig.clock.advance(30)
    master = rig.master()
    rig.run(master, rounds=12)
    assert not master._shards, "ten batches were read in fewer steps"
    more = documents(8, seed=2)
    rig.send_rows(more)
    settled(rig, master, rig.worker("w2"))
    rig.assert_all_words([*rows, *more])


def test_many_changed_batches_are_published_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_DIRTY_BYTES", 1)
    rig = WordRig(spec_of("memoized", snapshot_ms=3_600_000, max_staleness=8))
    rig.send_rows(documents(40))
    rig.run(rig.master(), rig.worker(), rounds=20)
    assert rig.blocks()[0].snapshot.n_events == 40


@pytest.mark.parametrize("limit", ["words", "bytes"])
def test_a_minibatch_that_cannot_be_one_batch_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut when it is full it would be another batch at the next visit, if one of its documents was gone by then."""
    if limit == "words":
        monkeypatch.setattr(learning, "INCREMENT_BYTES", 400)
    else:
        monkeypatch.setattr(kinds, "WORDS_BYTES", 200)
    rig = WordRig(spec_of("memoized"))
    rig.send_rows(documents(24))
    with pytest.raises(Fatal, match=r"8 documents are too many for one batch .* make inference.minibatch smaller"):
        rig.run(rig.master(), rig.worker(), rounds=20)


def test_a_summary_says_which_pass_it_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    rig = WordRig(spec_of("memoized"))
    rig.send_rows(documents(24))
    settled(rig, rig.master(), rig.worker())
    found = rig.found()
    assert (found.epoch, found.score) == (EPOCHS - 1, found.snapshot.counts.score / 24)
    print_summary(found)
    assert "lda by memoized, approximate, version" in (first := capsys.readouterr().out.splitlines()[0])
    assert first.endswith(", pass 3 of 3")


@pytest.mark.parametrize("epochs", [None, 1])
def test_one_pass_by_memoized_has_every_word_once(epochs: int | None) -> None:
    rows = [{"words": (["sail", "mast"] if i % 2 else ["oven"]) + ["the"] * (i % 3)} for i in range(60)]
    model = {"kind": "lda", "field": "words", "topics": 2}
    inference = {"method": "memoized", "epochs": epochs, "minibatch": 7}
    found = fit({"name": "pages", "model": model, "inference": inference}, rows)
    prior = found.spec.model.concentration
    assert found.topics is not None
    counts = dict(zip(found.vocabulary, (found.topics.natural - prior).sum(axis=0), strict=True))
    assert counts == pytest.approx({"mast": 30, "oven": 30, "sail": 30, "the": 60})
    assert found.n_events == 60
