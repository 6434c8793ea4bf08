"""LDA: the fast loop against the careful one, the bound against enumeration, and what must never break it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammainc, gammaln

from streaminfer.families import dirichlet
from streaminfer.models.lda.documents import Documents
from streaminfer.variational.lda import blocks, bound, careful, compiled, completion
from streaminfer.variational.lda import local as local_step
from streaminfer.variational.lda.absorb import absorb
from streaminfer.variational.lda.local import Local, local
from streaminfer.variational.lda.start import start
from streaminfer.variational.lda.topics import Topics, prior
from tests.variational.lda.corpora import Setting, dense, drawn

WORDS = tuple(b"%d" % i for i in range(60))


BY_MEAN = pytest.mark.parametrize("by_mean", [True, False], ids=["mean", "bound"])


def some_topics(m: int, k: int, seed: int, least: float = 0.05, by_mean: bool = False) -> Topics:
    rows = np.random.default_rng(seed).gamma(0.3, 3.0, (m, k)) + least
    return Topics(rows, rows.sum(axis=0) + 2.0, by_mean)


def slowly(topics: Topics, documents: Documents, alpha: float, weights: np.ndarray | None = None) -> Local:
    """The local step in logarithms, a document at a time."""
    k, tolerance = topics.rows.shape[1], 1e-2 if topics.by_mean else 1e-3
    statistics, gamma, turns = np.zeros_like(topics.rows), np.full((documents.n, k), alpha), np.zeros(documents.n, int)
    for d in range(documents.n):
        own = slice(documents.starts[d], documents.starts[d + 1])
        words, counts = documents.words[own], documents.counts[own]
        if len(words) > 0:
            first = np.full(k, alpha + counts.sum() / k)
            prior_of_all = np.full(k, alpha)
            gamma[d], phi, turns[d] = careful.fit(topics.logs()[words], counts, prior_of_all, first, tolerance, 100)
            statistics[words] += (1.0 if weights is None else weights[d]) * counts[:, None] * phi
    return Local(statistics, gamma, turns)


@BY_MEAN
@pytest.mark.parametrize(
    ("k", "alpha", "size"), [(2, 1.0, 2**19), (7, 0.1, 300), (20, 0.02, 5000), (3, 0.5, 1), (7, 0.1, 0)]
)
def test_the_fast_loops_give_what_the_careful_one_gives(
    k: int, alpha: float, size: int, by_mean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size of 0 stands for the loop that is compiled."""
    monkeypatch.setattr(blocks, "BLOCK", size)
    monkeypatch.setattr(compiled, "kernel", (lambda: None) if size else (lambda: compiled.turns))
    documents, topics = drawn(80, 60, 5, 12.0, seed=k), some_topics(60, k, seed=k, by_mean=by_mean)
    weights = np.random.default_rng(k).random(documents.n)
    fast, slow = local(topics, documents, alpha, weights), slowly(topics, documents, alpha, weights)
    np.testing.assert_array_equal(fast.iterations, slow.iterations)
    np.testing.assert_allclose(fast.gamma, slow.gamma, rtol=1e-9)
    np.testing.assert_allclose(fast.statistics, slow.statistics, rtol=1e-9, atol=1e-12)


def test_machine_code_and_blocks_agree_on_mean_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, topics = drawn(80, 60, 5, 40.0, seed=1), some_topics(60, 7, seed=1, least=0.01, by_mean=True)
    assert compiled.kernel() is not None
    machine = local(topics, documents, 0.1)
    monkeypatch.setattr(compiled, "kernel", lambda: None)
    arrays = local(topics, documents, 0.1)
    np.testing.assert_array_equal(machine.iterations, arrays.iterations)
    np.testing.assert_allclose(machine.gamma, arrays.gamma, rtol=1e-9)
    np.testing.assert_allclose(machine.statistics, arrays.statistics, rtol=1e-9, atol=1e-12)


@BY_MEAN
def test_the_statistics_of_a_word_sum_to_its_counts(by_mean: bool) -> None:
    setting, documents = Setting(WORDS, 5, by_mean=by_mean), drawn(60, 60, 5, 30.0, seed=2)
    found = absorb(setting.prior, documents, 0.1, None, setting.start())
    counts = np.bincount(documents.words, documents.counts, 60)
    np.testing.assert_allclose(found.statistics.sum(axis=1), counts, rtol=1e-10, atol=1e-12)


def test_only_by_the_mean_a_word_enters_a_topic_that_it_was_never_in() -> None:
    """Two words that always come together; one was new when the topic of the other was known."""
    topics = Topics(np.array([[50.0, 0.01], [0.01, 50.0]]), np.array([60.0, 60.0]), by_mean=True)
    together = Documents.of([{0: 20, 1: 2}])
    share = local(topics, together, 0.1).statistics[1, 0] / 2
    locked = local(topics._replace(by_mean=False), together, 0.1).statistics[1, 0] / 2
    assert share > 1e-4
    assert locked < 1e-30


def test_passes_that_ran_out_are_told() -> None:
    setting, documents = Setting(WORDS, 5, by_mean=True), drawn(60, 60, 5, 30.0, seed=2)
    enough = absorb(setting.prior, documents, 0.1, None, setting.start())
    assert enough.converged
    assert 2 < enough.passes < 20
    assert not absorb(setting.prior, documents, 0.1, None, setting.start(), enough.passes - 1).converged
    assert not absorb(setting.prior, documents, 0.1, None, setting.start(), 1).converged


def test_the_bound_of_every_document_rises_with_every_turn() -> None:
    documents, topics = drawn(60, 60, 5, 30.0, seed=1), some_topics(60, 6, seed=1)
    gamma, before = np.full((documents.n, 6), 0.1) + documents.lengths[:, None] / 6, np.full(documents.n, -np.inf)
    for _ in range(60):
        now = bound.documents_bound(topics, documents, 0.1, gamma)
        assert (now >= before - 1e-9 * np.abs(now)).all()
        gamma, before = local(topics, documents, 0.1, gamma=gamma, tolerance=0.0, most=1).gamma, now


def test_the_whole_bound_never_falls_from_pass_to_pass() -> None:
    setting, documents = Setting(WORDS, 5), drawn(60, 60, 5, 30.0, seed=2)
    bounds = []
    for passes in range(1, 12):
        found = absorb(setting.prior, documents, 0.1, None, setting.start(), passes, settled=0.0, warm=True)
        bounds.append(setting.elbo(setting.prior.plus(found.statistics), documents, found.gamma))
    assert (np.diff(bounds) >= -1e-8 * np.abs(bounds[:-1])).all()
    assert bounds[-1] > bounds[0] + 50


def test_bound_and_divergence_by_enumeration_make_the_log_evidence() -> None:
    """Two documents, five words, K = 2, V = 3: log p(w) = ELBO + KL(q | p(z, theta, beta | w)), z enumerated.

    Given z the posterior of theta and beta is Dirichlet, so every term of the divergence has a closed form.
    """
    tokens, owners, alpha, c, k, v = [0, 1, 1, 2, 0], [0, 0, 0, 1, 1], 0.4, 0.7, 2, 3
    documents = dense(np.array([[1, 2, 0], [1, 0, 1]]))
    topics = Topics(np.array([[1.3, 0.8], [0.9, 2.1], [1.1, 0.9]]), np.array([3.3, 3.8]))
    gamma = np.array([[1.2, 2.6], [1.5, 0.8]])
    elbo = bound.documents_bound(topics, documents, alpha, gamma).sum() - bound.topics_divergence(topics, c, v)

    def log_b(x: np.ndarray) -> float:
        return float(gammaln(x).sum() - gammaln(x.sum()))

    joint, divergence, q = [], [], []
    phi = [careful.assigned(topics.logs()[w], gamma[d]) for w, d in zip(tokens, owners, strict=True)]
    for z in product(range(k), repeat=len(tokens)):
        theta, beta = np.full((2, k), alpha), np.full((v, k), c)
        for w, d, topic in zip(tokens, owners, z, strict=True):
            theta[d, topic] += 1
            beta[w, topic] += 1
        joint.append(sum(log_b(row) - log_b(np.full(k, alpha)) for row in theta))
        joint[-1] += sum(log_b(column) - log_b(np.full(v, c)) for column in beta.T)
        pairs = [*zip(gamma, theta, strict=True), *zip(topics.rows.T, beta.T, strict=True)]
        divergence.append(sum(dirichlet.kl(*map(dirichlet.Parameters, pair)) for pair in pairs))
        q.append(np.prod([p[topic] for p, topic in zip(phi, z, strict=True)]))
    evidence, weights = np.logaddexp.reduce(joint), np.array(q)
    kl = float(weights @ (np.log(weights) - (np.array(joint) - evidence) + np.array(divergence)))
    assert elbo + kl == pytest.approx(evidence, rel=1e-12)
    assert kl > 0


def test_words_without_statistics_may_be_left_out_of_the_divergence() -> None:
    all_rows = prior(10, 0.3, 4, 10).plus(np.vstack([np.random.default_rng(0).random((3, 4)), np.zeros((7, 4))]))
    few = Topics(all_rows.rows[:3], all_rows.totals)
    direct = sum(
        dirichlet.kl(dirichlet.Parameters(column), dirichlet.Parameters(np.full(10, 0.3))) for column in all_rows.rows.T
    )
    assert bound.topics_divergence(few, 0.3, 10) == pytest.approx(direct, rel=1e-12)
    assert bound.topics_divergence(all_rows, 0.3, 10) == pytest.approx(direct, rel=1e-12)


def test_equal_topics_stay_equal_and_drawn_ones_do_not() -> None:
    """The mutant is a constant start."""
    setting, documents = Setting(WORDS, 4), drawn(60, 60, 4, 40.0, seed=3)
    constant = absorb(setting.prior, documents, 0.1, None, np.ones((60, 4)), 20).statistics
    np.testing.assert_allclose(constant, np.repeat(constant[:, :1], 4, axis=1), rtol=1e-9)
    drawn_ones = absorb(setting.prior, documents, 0.1, None, setting.start(), 20).statistics
    shares = drawn_ones / drawn_ones.sum(axis=0)
    assert min(np.abs(shares[:, i] - shares[:, j]).sum() for i in range(4) for j in range(i)) > 0.5


@BY_MEAN
@pytest.mark.parametrize("least", [1e-3, 1e-4, 1e-12, 1e-300])
def test_parameters_whose_exp_psi_is_zero(least: float, by_mean: bool) -> None:
    """Each word has one topic; the document was last seen in another one."""
    rows = np.where(np.eye(4, dtype=bool), 5.0, least)
    topics = Topics(rows, rows.sum(axis=0), by_mean)
    documents = dense(np.array([[2, 1, 0, 0], [0, 0, 0, 3], [1, 1, 1, 1], [0, 0, 0, 0]]))
    apart = np.where(np.arange(4) == 3, 9.0, least) * np.ones((4, 1))
    for gamma in (None, apart):
        found = local(topics, documents, least, gamma=gamma)
        np.testing.assert_allclose(found.statistics.sum(axis=1), [3.0, 2.0, 1.0, 4.0], rtol=1e-12)
        np.testing.assert_allclose(found.gamma.sum(axis=1), [3.0, 3.0, 4.0, 0.0], rtol=1e-9, atol=5 * least)
        assert np.isfinite(bound.documents_bound(topics, documents, least, found.gamma)).all()
    np.testing.assert_allclose(local(topics, documents, least).gamma, slowly(topics, documents, least).gamma, rtol=1e-9)
    if not by_mean:
        with np.errstate(all="ignore"):
            plain = np.exp(topics.logs()) @ np.exp(careful.psi(apart[0]))
        assert plain.min() == 0.0, "the mutant divides by this"


def test_large_counts_of_words_whose_mean_probability_is_tiny_are_taken_carefully(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1e100 words over a sum of 1e-300: the mutant is a loop that does not leave such documents to `careful`."""
    rows = np.where(np.eye(4, dtype=bool), 5.0, 1e-300)
    topics, documents = Topics(rows, rows.sum(axis=0), by_mean=True), Documents.of([{0: 1e100, 1: 1.0}])
    apart = np.array([[1e-300, 1e-300, 1e-300, 9.0]])
    found = local(topics, documents, 0.1, gamma=apart)
    np.testing.assert_allclose(found.statistics.sum(axis=1), [1e100, 1.0, 0.0, 0.0], rtol=1e-12)
    monkeypatch.setattr(compiled, "kernel", lambda: None)
    for module in (blocks, local_step):
        monkeypatch.setattr(module, "TINY", 0.0)
    with np.errstate(all="ignore"):
        assert not np.isfinite(local(topics, documents, 0.1, gamma=apart).statistics).all()


def test_a_document_without_words_says_nothing() -> None:
    topics = some_topics(60, 3, seed=4)
    empty = Documents.of([{}, {}])
    found = local(topics, empty, 0.3)
    assert not found.statistics.any()
    np.testing.assert_array_equal(found.gamma, 0.3)
    np.testing.assert_allclose(bound.documents_bound(topics, empty, 0.3, found.gamma), 0.0, atol=1e-12)
    assert local(topics, Documents.of([]), 0.3).statistics.shape == (60, 3)
    assert local(Topics(topics.rows[:0], topics.totals), empty.compact()[1], 0.3).statistics.shape == (0, 3)
    assert completion.score(topics, empty, 0.3, seed=0).log_predictive.tolist() == [0.0, 0.0]
    assert absorb(topics, empty, 0.3).passes <= 2


def test_one_word_goes_where_it_is_most_at_home() -> None:
    topics = Topics(np.array([[8.0, 0.1], [0.1, 8.0]]), np.array([8.1, 8.1]))
    found = local(topics, Documents.of([{0: 1}, {1: 1}]), 0.1)
    assert found.gamma.argmax(axis=1).tolist() == [0, 1]
    np.testing.assert_allclose(found.statistics.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("count", [1e6, 1e15, 1e100])
def test_huge_counts_stay_numbers(count: float) -> None:
    topics, documents = some_topics(60, 3, seed=5), Documents.of([{0: count, 1: 1.0, 2: count}, {3: 2.0}])
    found = absorb(topics, documents, 0.1)
    np.testing.assert_allclose(found.statistics.sum(), documents.counts.sum(), rtol=1e-9)
    assert np.isfinite(found.gamma).all()
    assert np.isfinite(bound.documents_bound(topics, documents, 0.1, found.gamma)).all()
    assert np.isfinite(completion.score(topics.plus(found.statistics), documents, 0.1, seed=0).log_predictive).all()


def test_the_order_of_documents_and_words_does_not_matter() -> None:
    documents, topics, rng = drawn(50, 60, 4, 25.0, seed=6), some_topics(60, 5, seed=6), np.random.default_rng(6)
    order, renamed = rng.permutation(50), rng.permutation(60)
    found, moved = local(topics, documents, 0.1), local(topics, documents.select(order), 0.1)
    np.testing.assert_allclose(moved.statistics, found.statistics, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moved.gamma, found.gamma[order], rtol=1e-9)
    rows = np.empty_like(topics.rows)
    rows[renamed] = topics.rows
    other = local(Topics(rows, topics.totals), documents._replace(words=renamed[documents.words]), 0.1)
    np.testing.assert_allclose(other.statistics[renamed], found.statistics, rtol=1e-9, atol=1e-12)


def test_only_the_rows_of_words_that_occur_are_asked_for() -> None:
    documents, topics = drawn(5, 60, 4, 8.0, seed=7), some_topics(60, 5, seed=7)
    words, compact = documents.compact()
    assert len(words) < 40
    few = absorb(Topics(topics.rows[words], topics.totals), compact, 0.1).statistics
    everything = absorb(topics, documents, 0.1).statistics
    np.testing.assert_allclose(few, everything[words], rtol=1e-9, atol=1e-12)
    assert everything.sum() == pytest.approx(few.sum())


def test_start_depends_on_seed_and_word_alone() -> None:
    words = [b"%d" % i for i in range(2000)]
    found = start(words, 50, seed=3)
    np.testing.assert_array_equal(start(words[::-1], 50, seed=3)[::-1], found)
    np.testing.assert_array_equal(start(words, 20, seed=3), found[:, :20])
    assert np.abs(start(words, 50, seed=4) - found).max() > 0.3
    assert start([], 5, 0).shape == (0, 5)


def test_start_has_the_distribution_it_says() -> None:
    """100,000 draws: 6 standard errors of mean and variance, the Kolmogorov distance at 1e-9; false alarms < 1e-8."""
    draws = start([b"word %d" % i for i in range(2000)], 50, seed=0)
    n = draws.size
    assert abs(draws.mean() - 1) < 6 * 0.1 / np.sqrt(n)
    assert abs(draws.var() - 0.01) < 6 * 0.01 * np.sqrt(2.06 / n)
    distance = np.abs(gammainc(100.0, 100 * np.sort(draws, axis=None)) - (np.arange(n) + 0.5) / n).max()
    assert distance < np.sqrt(-np.log(1e-9 / 2) / (2 * n)) + 0.5 / n
    assert np.abs(np.corrcoef(draws.T) - np.eye(50)).max() < 7.5 / np.sqrt(2000)


def test_halves_are_the_document_and_foretell_honestly() -> None:
    documents = drawn(40, 60, 4, 30.0, seed=8)
    first, second = completion.halves(documents, seed=0)
    np.testing.assert_allclose(first.lengths + second.lengths, documents.lengths)
    assert (first.counts > 0).all()
    assert (second.counts > 0).all()
    again = completion.halves(documents, seed=0)[0]
    np.testing.assert_array_equal(again.counts, first.counts)
    total = documents.lengths.sum()
    assert abs(first.lengths.sum() - total / 2) < 6 * np.sqrt(total / 4)


def test_what_foretells_is_a_density_over_words() -> None:
    topics = some_topics(60, 4, seed=9)
    topics = Topics(topics.rows, topics.rows.sum(axis=0))
    gamma = np.random.default_rng(9).gamma(1.0, 1.0, (1, 4)) + 0.1
    logs = [completion.predicted(topics, Documents.of([{w: 1}]), gamma).log_predictive[0] for w in range(60)]
    assert np.exp(logs).sum() == pytest.approx(1.0, rel=1e-12)
    theta = gamma[0] / gamma.sum()
    assert logs[7] == pytest.approx(np.log(topics.rows[7] / topics.totals @ theta), rel=1e-12)
