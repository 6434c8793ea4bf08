"""The fold of words touches few rows, and is the fold of all of them: a dense computation says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer import parse_spec
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import DomainError
from streaminfer.spec import Spec
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import ByKey, Increment
from streaminfer.variational.lda import fold, words
from streaminfer.variational.lda.words import MODULUS, Head, ShardRows
from streaminfer.variational.methods.blend import TAIL
from streaminfer.variational.outcomes import Outcome
from tests.made import changed, new_increment

K, V = 3, 40


def spec_of(**inference: Any) -> Spec:
    return parse_spec({"name": "demo", "model": {"kind": "lda", "field": "w", "topics": K}, "inference": inference})


def model_of(spec: Spec) -> Lda:
    assert spec.words is not None
    return spec.words


def label(word: int) -> bytes:
    return b"%d" % word


def increment(
    spec: Spec, at: int, some: list[int], statistics: np.ndarray, n_events: int = 5, **more: Any
) -> Increment:
    with np.errstate(all="ignore"):
        counts = np.nan_to_num(np.maximum(1.0, np.ceil(statistics.sum(axis=1))), nan=1.0, posinf=1.0)
    zeros = [np.zeros(len(some)) for _ in range(4)]
    return new_increment(
        fingerprint=spec.fingerprint, begin=at, end=at + 5,
        score=-1.5, statistics=statistics, n_events=n_events,
        keys=ByKey([label(word) for word in some], counts, *zeros), **more,
    )  # fmt: skip


def empty(spec: Spec) -> ShardRows:
    return ShardRows(
        Arena(words.row_size(model_of(spec), spec.inference)),
        changed(words.start(model_of(spec), spec.fingerprint), positions={0: 0}),
    )


def folded(spec: Spec, block: ShardRows, made: Increment, **more: Any) -> tuple[ShardRows, Outcome]:
    snapshot, outcome = fold.add(model_of(spec), spec.inference, block, made, **more)
    return block._replace(snapshot=snapshot), outcome


def stream(spec: Spec, steps: int, seed: int = 1) -> tuple[ShardRows, np.ndarray]:
    """A shard after some increments of a few words each, and the same by arithmetic on all rows at every step."""
    rng, block, dense = np.random.default_rng(seed), empty(spec), np.zeros((V, K))
    for step in range(steps):
        some = sorted(rng.choice(V, int(rng.integers(0, 6)), replace=False).tolist())
        statistics = rng.gamma(0.5, 4.0, (len(some), K))
        whole = np.zeros((V, K))
        whole[some] = statistics
        if spec.inference.method == "svi":
            assert spec.inference.step is not None
            rho = spec.inference.step.at(step + 1)
            dense = (1 - rho) * dense + rho * whole / 5
        else:
            dense = dense + whole
        block, outcome = folded(spec, block, increment(spec, 5 * step, some, statistics))
        assert outcome is Outcome.FOLDED
    return block, dense


def rows_of(spec: Spec, block: ShardRows, decaying: bool = True) -> np.ndarray:
    head = words.head_of(model_of(spec), block.snapshot.payload.statistics)
    places = block.arena.firsts([label(word) for word in range(V)])
    return words.held(model_of(spec), block.arena, places, head.log_weight if decaying else 0.0)


def assert_dense(spec: Spec, block: ShardRows, dense: np.ndarray, decaying: bool = True) -> None:
    np.testing.assert_allclose(rows_of(spec, block, decaying), dense, rtol=1e-10, atol=1e-12 * dense.max())
    head = words.head_of(model_of(spec), block.snapshot.payload.statistics)
    np.testing.assert_allclose(head.sums, dense.sum(axis=0), rtol=1e-12)
    assert words.complete(model_of(spec), block)


CASES = [
    {},
    {"method": "svi"},
    {"method": "svi", "step": {"tau": 0, "kappa": 1.0}},
    {"method": "svi", "step": {"tau": 0, "kappa": 0.501}},
    {"method": "svi", "step": {"constant": 0.05}},
]


def averaged(rho: float, steps: int, seed: int = 1) -> tuple[Spec, ShardRows, np.ndarray]:
    """A shard after steps of one size, and the average of all rows at every step, as `blend` has it."""
    spec = spec_of(method="svi", step={"constant": rho})
    rng, block = np.random.default_rng(seed), empty(spec)
    dense, average = np.zeros((V, K)), np.zeros((V, K))
    for step in range(steps):
        some = sorted(rng.choice(V, int(rng.integers(0, 3)), replace=False).tolist())
        whole = np.zeros((V, K))
        whole[some] = rng.gamma(0.5, 4.0, (len(some), K))
        dense = (1 - rho) * dense + rho * whole / 5
        weight = (TAIL + 1) / (step + 1 + TAIL)
        average = (1 - weight) * average + weight * dense
        block, outcome = folded(spec, block, increment(spec, 5 * step, some, whole[some]))
        assert outcome is Outcome.FOLDED
    return spec, block, average


@pytest.mark.parametrize(("rho", "steps"), [(0.05, 1), (0.05, 2), (0.05, 400), (0.9, 60), (1e-6, 400), (0.3, 3000)])
def test_the_average_of_constant_steps_is_that_of_all_rows_at_every_step(rho: float, steps: int) -> None:
    spec, block, average = averaged(rho, steps)
    found = words.published(model_of(spec), spec.inference, block, [label(word) for word in range(V)])
    np.testing.assert_allclose(found, average, rtol=1e-9, atol=1e-11 * average.max())


def test_an_average_without_what_rows_were_meanwhile_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake of a lazy average: from steps that did not touch a row only the average's own decay is kept."""
    real = words.weights
    monkeypatch.setattr(words, "weights", lambda *given: (real(*given)[0], np.zeros(len(given[0]))))
    with pytest.raises(AssertionError):
        test_the_average_of_constant_steps_is_that_of_all_rows_at_every_step(0.05, 400)


def test_a_word_that_nobody_uses_leaves_the_average_too() -> None:
    spec, block, _ = averaged(0.05, 20)
    before = words.published(model_of(spec), spec.inference, block, [label(word) for word in range(V)])
    at = 100
    for _ in range(2000):
        block, _ = folded(spec, block, increment(spec, at, [V + 1], np.ones((1, K))))
        at += 5
    after = words.published(model_of(spec), spec.inference, block, [label(word) for word in range(V)])
    known = before > 0
    assert known.any()
    assert (after[known] < 1e-4 * before[known]).all()


@pytest.mark.parametrize("inference", CASES, ids=str)
def test_a_fold_of_few_rows_is_that_of_all(inference: dict[str, Any]) -> None:
    spec = spec_of(**inference)
    block, dense = stream(spec, 300)
    assert_dense(spec, block, dense)
    told = (block.snapshot.n_events, block.snapshot.frontier.positions, block.snapshot.counts.score)
    assert told == (1500, {0: 1500}, -450.0)
    assert block.snapshot.payload.n_steps == (300 if inference else 0)


def test_rows_that_are_not_brought_to_the_present_are_found() -> None:
    """The mistake of a lazy decay: a word keeps what it had when it was last used."""
    spec = spec_of(method="svi")
    block, dense = stream(spec, 300)
    with pytest.raises(AssertionError):
        assert_dense(spec, block, dense, decaying=False)


def test_steps_without_end_leave_no_number_behind() -> None:
    """After a product of all (1 - rho) would have become 0, rows of today are as right as ever."""
    spec = spec_of(method="svi", step={"tau": 0, "kappa": 0.501})
    block, _ = stream(spec, 20)
    far = changed(block.snapshot, statistics=block.snapshot.payload.statistics.copy())
    far.payload.statistics[K] -= 1e5
    block, _ = folded(spec, block._replace(snapshot=far), increment(spec, 100, [1], np.ones((1, K))))
    rows = rows_of(spec, block)
    assert np.isfinite(rows).all()
    rho = spec.inference.step.at(21) if spec.inference.step else 0.0
    np.testing.assert_allclose(rows[1], rho / 5)
    assert not np.delete(rows, 1, axis=0).any()


def test_only_the_rows_of_an_increment_change() -> None:
    for inference in CASES:
        spec = spec_of(**inference)
        block, _ = stream(spec, 50)
        block.arena.published()
        before = block.arena.statistics.copy()
        block, _ = folded(spec, block, increment(spec, 250, [3, 4, V + 1], np.ones((3, K))))
        changed = {entry.label for entry in block.arena.changed()}
        assert changed == {b"3", b"4", label(V + 1)}
        same = [row for word, row in block.arena.rows.items() if word not in changed]
        np.testing.assert_array_equal(block.arena.statistics[same], before[same])


def test_rows_of_another_snapshot_are_noticed_however_little_they_differ() -> None:
    spec = spec_of()
    block, _ = stream(spec, 30)
    earlier = block.snapshot
    block, _ = folded(spec, block, increment(spec, 150, [7], np.full((1, K), 1e-12)))
    assert words.complete(model_of(spec), block)
    assert not words.complete(model_of(spec), block._replace(snapshot=changed(earlier, n_keys=len(block.arena))))


def test_words_are_counted_beyond_what_float64_can_add() -> None:
    spec, block = spec_of(), empty(spec_of())
    for step, count in enumerate([2.0**53, 3.0, 2.0**53, 1.0, 2.0**52 + 1]):
        made = increment(spec, 5 * step, [step, step + 1], np.ones((2, K)))
        assert made.payload.keys is not None
        made.payload.keys.counts[:] = count
        block, _ = folded(spec, block, made)
        exact = sum(int(each) for each in block.arena.counts[: len(block.arena)].tolist())
        assert words.head_of(model_of(spec), block.snapshot.payload.statistics).n_words == exact % MODULUS
        assert words.complete(model_of(spec), block)
    assert exact > 2**54


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1e-300])
@pytest.mark.parametrize("inference", CASES[:2], ids=str)
def test_an_improper_increment_moves_the_frontier_and_nothing_else(inference: dict[str, Any], bad: float) -> None:
    spec = spec_of(**inference)
    block, dense = stream(spec, 10)
    statistics = np.ones((2, K))
    statistics[1, 2] = bad
    after, outcome = folded(spec, block, increment(spec, 50, [1, V], statistics))
    assert outcome is Outcome.REJECTED
    assert_dense(spec, after, dense)
    told = (after.snapshot.frontier.positions[0], after.snapshot.counts.n_rejected, after.snapshot.n_events)
    assert told == (55, 5, 50)
    assert after.snapshot.counts.score == block.snapshot.counts.score


@pytest.mark.parametrize("size", [1.001, 1e100, 1e308])
def test_statistics_beyond_the_counts_are_rejected(size: float) -> None:
    """Whatever they are: sums of words that were counted cannot leave float64, also times a population."""
    for inference in CASES[:2]:
        spec = spec_of(**inference)
        made = increment(spec, 0, [1, 2], np.full((2, K), size / K))
        assert made.payload.keys is not None
        made.payload.keys.counts[:] = 1.0
        after, outcome = folded(spec, empty(spec), made)
        assert outcome is Outcome.REJECTED
        assert len(after.arena) == 0


def test_what_does_not_continue_the_frontier_or_starts_too_far_back_is_dropped() -> None:
    spec = spec_of()
    block, dense = stream(spec, 10)
    for at, outcome in ((45, Outcome.BEHIND), (55, Outcome.AHEAD)):
        after, found = folded(spec, block, increment(spec, at, [1], np.ones((1, K))))
        assert found is outcome
        assert_dense(spec, after, dense)
    after, found = folded(spec, block, increment(spec, 50, [1], np.ones((1, K))), base_events=24)
    assert found is Outcome.STALE_BASE
    assert (after.snapshot.counts.n_dropped, after.snapshot.frontier.positions[0]) == (1, 50)
    assert folded(spec, block, increment(spec, 50, [1], np.ones((1, K))), base_events=25)[1] is Outcome.FOLDED


def test_positions_without_events_move_the_frontier_alone() -> None:
    spec = spec_of(method="svi")
    block, dense = stream(spec, 10)
    made = increment(spec, 50, [], np.zeros((0, K)), n_events=0)
    after, outcome = folded(spec, block, made)
    assert outcome is Outcome.FOLDED
    told = (after.snapshot.frontier.positions[0], after.snapshot.payload.n_steps, after.snapshot.counts.staleness)
    assert told == (55, 10, 0)
    assert_dense(spec, after, dense)


def test_documents_without_words_are_a_step_all_the_same() -> None:
    spec = spec_of(method="svi")
    block, dense = stream(spec, 10)
    assert spec.inference.step is not None
    after, _ = folded(spec, block, increment(spec, 50, [], np.zeros((0, K))))
    assert_dense(spec, after, dense * (1 - spec.inference.step.at(11)))


@pytest.mark.parametrize("i", range(K + 2))
def test_a_head_that_cannot_be_is_refused(i: int) -> None:
    model = model_of(spec_of())
    good = Head(np.ones(K), -1.0, 7).vector()
    assert words.head_of(model, good).n_words == 7
    for bad in (np.nan, np.inf, -1.0 if i != K else 1e-9, 0.5 if i == K + 1 else np.nan, 2.0**53 if i > K else np.nan):
        broken = good.copy()
        broken[i] = bad
        with pytest.raises(DomainError):
            words.head_of(model, broken)
    with pytest.raises(DomainError):
        words.head_of(model, good[1:])
