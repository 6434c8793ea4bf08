"""Memoized inference of topics: the sums are those of the batches, one batch is batch VB, and the bound never falls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from streaminfer import fit, parse_spec
from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.documents import Documents
from streaminfer.models.lda.model import Lda
from streaminfer.spec import Spec
from streaminfer.variational import epochs
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import Increment
from streaminfer.variational.lda import fold, learning, words
from streaminfer.variational.lda.absorb import absorb
from streaminfer.variational.lda.batches import Batch, Batches, BatchPlace
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.topics import Topics
from streaminfer.variational.lda.words import ShardRows
from streaminfer.variational.methods import memoized
from streaminfer.variational.methods.memoized import TooManyBatches
from streaminfer.variational.outcomes import Outcome
from tests.made import changed, new_increment
from tests.variational.lda.corpora import Setting, drawn

V, K, N = 50, 4, 70
SETTING = Setting(tuple(b"%d" % i for i in range(V)), K, alpha=0.1, concentration=0.1)
DOCUMENTS = drawn(N, V, K, 30.0, seed=0)


def spec_of(n_epochs: int, minibatch: int = 20) -> Spec:
    return parse_spec(
        {
            "name": "demo",
            "model": {
                "kind": "lda",
                "field": "w",
                "topics": K,
                "local": "bound",
                "vocabulary": [word.decode() for word in SETTING.words],
                "prior": {"document": SETTING.alpha, "topic": SETTING.concentration},
            },
            "inference": {"method": "memoized", "epochs": n_epochs, "minibatch": minibatch},
        }
    )


def model_of(spec: Spec) -> Lda:
    assert spec.words is not None
    return spec.words


class Visit(NamedTuple):
    """What was folded, and what came of it."""

    increment: Increment
    block: ShardRows
    documents: Documents
    base: Topics


def begun(spec: Spec) -> ShardRows:
    first = epochs.met(words.start(model_of(spec), spec.fingerprint), {0: 0}, kept=True)
    return ShardRows(Arena(K), first, Batches())


def topics_of(spec: Spec, block: ShardRows) -> Topics:
    """The topics of all words in their order."""
    shards = np.zeros(V, dtype=np.intp)
    return learning.topics_of(model_of(spec), spec.inference, [block], list(SETTING.words), shards)


def made(spec: Spec, block: ShardRows, begin: int, end: int, **more: Any) -> Increment:
    present, compact = DOCUMENTS.select(np.arange(begin, end)).compact()
    batch = Bagged(tuple(SETTING.words[word] for word in present.tolist()), compact)
    shards, starts = np.zeros(len(present), dtype=np.intp), learning.starts_of(model_of(spec))
    again = block.snapshot.frontier.epoch > 0
    step = learning.learn(model_of(spec), spec.inference, [block], batch, shards, starts, again)
    statistics, keys = learning.by_word(batch, step.statistics, np.arange(len(present)))
    given = {"statistics": statistics, "keys": keys, "n_events": end - begin, "n_lost": 0, **more}
    return new_increment(
        fingerprint=spec.fingerprint, begin=begin, end=end, n_dead_lettered=0,
        base_version=0, score=step.score, epoch=block.snapshot.frontier.epoch, **given,
    )  # fmt: skip


def folded(spec: Spec, block: ShardRows, increment: Increment) -> tuple[ShardRows, Outcome]:
    snapshot, outcome = fold.add(model_of(spec), spec.inference, block, increment)
    return block._replace(snapshot=snapshot), outcome


def turned(spec: Spec, block: ShardRows, end: int = N) -> ShardRows:
    snapshot = epochs.turned(epochs.fixed(block.snapshot, {0: end}), spec.inference.n_epochs)
    return block._replace(snapshot=snapshot)


def visits(spec: Spec, mends: bool = True) -> Iterator[Visit]:
    """Every pass over all documents; `mends` the sums at the end of each."""
    block, size = begun(spec), spec.inference.minibatch
    for _ in range(spec.inference.n_epochs):
        for begin in range(0, N, size):
            end, base = min(N, begin + size), topics_of(spec, block)
            increment = made(spec, block, begin, end)
            block, outcome = folded(spec, block, increment)
            assert outcome is Outcome.FOLDED
            yield Visit(increment, block, DOCUMENTS.select(np.arange(begin, end)), base)
        block = turned(spec, block)
        if mends:
            block = block._replace(snapshot=fold.mended(model_of(spec), block))


def dense(increment: Increment) -> np.ndarray:
    assert increment.payload.keys is not None
    found = np.zeros((V, K))
    found[[int(label) for label in increment.payload.keys.labels]] = increment.payload.statistics
    return found


def check_sums(seen: Iterator[Visit], spec: Spec) -> int:
    """After every visit rows and sums are those of what each batch said last, and every document counts once."""
    latest: dict[int, Increment] = {}
    n_visits = 0
    for visit in seen:
        latest[visit.increment.provenance.begin] = visit.increment
        recomputed = sum((dense(each) for each in latest.values()), np.zeros((V, K)))
        found = topics_of(spec, visit.block)
        np.testing.assert_allclose(found.rows - SETTING.concentration, recomputed, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.totals, SETTING.prior.totals + recomputed.sum(axis=0), rtol=1e-9)
        assert visit.block.snapshot.n_events == sum(each.n_events for each in latest.values())
        assert words.complete(model_of(spec), visit.block)
        n_visits += 1
    return n_visits


@pytest.mark.parametrize("mends", [True, False])
def test_the_running_sums_are_the_recomputed_ones(mends: bool) -> None:
    spec = spec_of(12, minibatch=8)
    assert check_sums(visits(spec, mends), spec) == 12 * 9


def test_a_visit_that_leaves_the_old_statistics_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "aligned", lambda self, _: np.zeros_like(self.statistics))
    spec = spec_of(2, minibatch=8)
    with pytest.raises(AssertionError):
        check_sums(visits(spec), spec)


@pytest.mark.parametrize("n_epochs", [1, 2, 6])
def test_one_batch_is_batch_variational_bayes(n_epochs: int) -> None:
    spec = spec_of(n_epochs, minibatch=N)
    found = [dense(visit.increment) for visit in visits(spec)][-1]
    present, compact = DOCUMENTS.compact()
    prior = SETTING.prior._replace(rows=SETTING.prior.rows[present])
    wanted = absorb(prior, compact, SETTING.alpha, None, SETTING.start()[present]).statistics
    for _ in range(n_epochs - 1):
        wanted = local(prior.plus(wanted), compact, SETTING.alpha).statistics
    np.testing.assert_allclose(found[present], wanted, rtol=1e-9, atol=1e-10)


def bounds(n_epochs: int, minibatch: int) -> np.ndarray:
    """The evidence lower bound after every visit of the second pass on, if documents go on from their last gamma.

    A worker has no gamma of the visit before: its documents start afresh, and end now and then at another optimum.
    """
    spec = spec_of(n_epochs, minibatch)
    block, gammas, found = begun(spec), dict[int, np.ndarray](), []
    for _ in range(n_epochs):
        for begin in range(0, N, minibatch):
            end = min(N, begin + minibatch)
            present, compact = DOCUMENTS.select(np.arange(begin, end)).compact()
            base = topics_of(spec, block)
            base = base if block.snapshot.n_events else base.plus(SETTING.start())
            here = Topics(base.rows[present], base.totals)
            step = local(here, compact, SETTING.alpha, gamma=gammas.get(begin), tolerance=1e-9, most=5000)
            gammas[begin] = step.gamma
            block, outcome = folded(spec, block, made(spec, block, begin, end, statistics=step.statistics))
            assert outcome is Outcome.FOLDED
            if len(gammas) == -(-N // minibatch):
                topics, gamma = topics_of(spec, block), np.vstack([gammas[at] for at in sorted(gammas)])
                found.append(SETTING.elbo(topics, DOCUMENTS, gamma))
        block = turned(spec, block)
        block = block._replace(snapshot=fold.mended(model_of(spec), block))
    return np.array(found)


@pytest.mark.parametrize("minibatch", [8, 20, N])
def test_the_bound_never_falls_over_visits(minibatch: int) -> None:
    found = bounds(15, minibatch)
    assert (np.diff(found) >= -1e-9 * np.abs(found[1:])).all()
    assert found[-1] > found[0]


def test_visits_that_leave_the_old_statistics_in_let_the_bound_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batch, "aligned", lambda self, _: np.zeros_like(self.statistics))
    monkeypatch.setattr(fold, "mended", lambda _, block: block.snapshot)
    found = bounds(15, 20)
    assert (np.diff(found) < -1e-5 * np.abs(found[1:])).any()


def after_one_pass(end: int = 60) -> tuple[Spec, ShardRows]:
    spec = spec_of(3)
    block = begun(spec)
    for begin in range(0, end, 20):
        block, _ = folded(spec, block, made(spec, block, begin, min(end, begin + 20)))
    return spec, turned(spec, block, end)


@pytest.mark.parametrize(("begin", "end", "lost"), [(0, 19, 0), (0, 40, 0), (1, 20, 0), (0, 30, 30), (0, 61, 0)])
def test_in_a_later_pass_only_whole_batches_are_taken(begin: int, end: int, lost: int) -> None:
    spec, block = after_one_pass()
    given = made(spec, block, begin, end, n_lost=lost)
    after, outcome = folded(spec, block, changed(given, n_events=0) if lost else given)
    assert (outcome, after.snapshot.counts.n_dropped) == (Outcome.AHEAD, 1)
    np.testing.assert_array_equal(after.snapshot.payload.statistics, block.snapshot.payload.statistics)


@pytest.mark.parametrize(("end", "lost", "n_events"), [(20, 20, 0), (40, 40, 0), (20, 0, 19)])
def test_a_batch_of_which_documents_are_gone_keeps_its_statistics(end: int, lost: int, n_events: int) -> None:
    spec, block = after_one_pass()
    before = topics_of(spec, block)
    given = made(spec, block, 0, end, n_lost=lost, n_events=n_events)
    after, outcome = folded(spec, block, given)
    assert (outcome, after.snapshot.frontier.positions, after.snapshot.n_events) == (Outcome.FOLDED, {0: end}, 60)
    np.testing.assert_array_equal(topics_of(spec, after).rows, before.rows)


def test_a_batch_never_gets_other_words() -> None:
    spec, block = after_one_pass()
    given = made(spec, block, 0, 20)
    assert given.payload.keys is not None
    keys = given.payload.keys._replace(labels=[*given.payload.keys.labels[:-1], b"another"])
    after, outcome = folded(spec, block, changed(given, keys=keys))
    assert (outcome, after.snapshot.n_events, after.snapshot.counts.n_rejected) == (Outcome.REJECTED, 60, 0)
    order = np.arange(len(given.payload.keys.labels))[::-1]
    turned_round = given.payload.keys._replace(
        labels=given.payload.keys.labels[::-1], counts=given.payload.keys.counts[order]
    )
    after, outcome = folded(spec, block, changed(given, keys=turned_round, statistics=given.payload.statistics[order]))
    assert outcome is Outcome.FOLDED
    np.testing.assert_allclose(
        after.snapshot.payload.statistics[:K].sum(), block.snapshot.payload.statistics[:K].sum(), rtol=1e-12
    )


def test_rejected_documents_are_counted_once_and_no_more_when_a_later_pass_takes_them() -> None:
    spec = spec_of(3)
    block = begun(spec)
    good = made(spec, block, 0, 20)
    block, outcome = folded(spec, block, changed(good, statistics=-good.payload.statistics))
    assert (outcome, block.snapshot.counts.n_rejected, block.snapshot.payload.n_batches) == (Outcome.REJECTED, 20, 1)
    block, _ = folded(spec, block, made(spec, block, 20, 40))
    block = turned(spec, block, 40)
    block, outcome = folded(spec, block, made(spec, block, 0, 20))
    assert (outcome, block.snapshot.n_events, block.snapshot.counts.n_rejected) == (Outcome.FOLDED, 40, 0)


def test_what_comes_after_the_ends_is_added_and_not_held() -> None:
    spec, block = after_one_pass(40)
    for begin in (0, 20, 0, 20):
        block, outcome = folded(spec, block, made(spec, block, begin, begin + 20))
        assert outcome is Outcome.FOLDED
        block = turned(spec, block, 40)
    assert (block.snapshot.frontier.epoch, block.snapshot.frontier.positions) == (2, {0: 40})
    before = topics_of(spec, block)
    late = made(spec, block, 40, 60)
    block, outcome = folded(spec, block, late)
    assert (outcome, block.snapshot.n_events, block.snapshot.payload.n_batches) == (Outcome.FOLDED, 60, 2)
    np.testing.assert_allclose(topics_of(spec, block).rows, before.plus(dense(late)).rows, rtol=1e-12)


def test_roundings_are_mended_at_the_end_of_a_pass_where_they_matter() -> None:
    spec, block = after_one_pass()
    model, exact = model_of(spec), block.arena.statistics.copy()
    block.arena.published()
    block.arena.statistics[3] += 1e-9
    block.arena.statistics[5] *= 1 + 1e-15
    after = block._replace(snapshot=fold.mended(model, block))
    assert {entry.label for entry in block.arena.changed()} == {block.arena.labels[3]}
    np.testing.assert_array_equal(block.arena.statistics[3], exact[3])
    assert words.complete(model, after)
    assert not words.complete(model, block)


def test_a_row_that_is_mended_is_counted_beyond_what_float64_can_add() -> None:
    spec, block = after_one_pass()
    model = model_of(spec)
    block.arena.counts[3] = 2.0**53 + 2
    head = words.head_of(model, block.snapshot.payload.statistics)
    n_words = words.counted(block.arena.counts[: len(block.arena)])
    block = block._replace(snapshot=changed(block.snapshot, statistics=head._replace(n_words=n_words).vector()))
    block.arena.statistics[3] += 1e-9
    after = block._replace(snapshot=fold.mended(model, block))
    assert words.complete(model, after)
    assert not words.complete(model, block)


def test_more_batches_than_a_master_may_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = Batch(1, np.arange(2), np.ones(2), np.ones((2, K)))
    monkeypatch.setattr(memoized, "MOST_BATCHES", 2)
    held = Batches()
    for begin in (0, 5, 0, 5):
        held.put(BatchPlace(0, begin), batch)
    with pytest.raises(TooManyBatches, match=r"there are more than 2 batches .* make inference.minibatch larger"):
        held.put(BatchPlace(1, 0), batch)
    monkeypatch.setattr(memoized, "MOST_BYTES", 2 * batch.n_bytes - 1)
    held = Batches()
    held.put(BatchPlace(0, 0), batch)
    with pytest.raises(TooManyBatches):
        held.put(BatchPlace(0, 5), batch)


def rows() -> list[dict[str, Any]]:
    bounds_of = zip(DOCUMENTS.starts[:-1].tolist(), DOCUMENTS.starts[1:].tolist(), strict=True)
    return [
        {"w": {str(w): int(c) for w, c in zip(DOCUMENTS.words[a:b].tolist(), DOCUMENTS.counts[a:b], strict=True)}}
        for a, b in bounds_of
    ]


def test_fit_makes_the_same_passes() -> None:
    spec = spec_of(4)
    seen = list(visits(spec))
    found = fit(spec, rows())
    assert (found.n_events, found.snapshot.frontier.epoch, found.snapshot.payload.n_batches) == (N, 3, 4)
    natural = topics_of(spec, seen[-1].block).rows
    order = np.argsort([word.decode() for word in SETTING.words])
    np.testing.assert_allclose(found.posterior.natural, natural[order].T, rtol=1e-9)


def test_several_passes_of_svi_are_steps_over_the_same_documents() -> None:
    """As one pass over the documents twice, with N = 70 all the time."""
    common = {
        "name": "demo",
        "model": {"kind": "lda", "field": "w", "topics": K, "vocabulary": [word.decode() for word in SETTING.words]},
    }
    inference = {"method": "svi", "minibatch": 14, "population": N}
    twice = fit(parse_spec({**common, "inference": {**inference, "epochs": 2}}), rows())
    longer = fit(parse_spec({**common, "inference": inference}), rows() * 2)
    np.testing.assert_allclose(twice.posterior.natural, longer.posterior.natural, rtol=1e-12)
    assert (twice.n_events, twice.snapshot.payload.n_steps, twice.snapshot.frontier.epoch) == (N, 10, 1)
