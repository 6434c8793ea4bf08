"""What a model of words must satisfy: rows of words merge, and all of them together have one posterior."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from streaminfer.models import MODELS
from streaminfer.models.checks import check
from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.documents import Documents
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import AnyModel, DomainError, Model, WordModel, is_of_words
from streaminfer.variational.lda.posterior import TopicsPosterior
from tests.contracts.test_targets import assert_mean

EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "lda": ("lda", {"field": "w", "topics": 4}),
    "lda-vocabulary": ("lda", {"field": "w", "topics": 2, "vocabulary": ["é", "a", "never"], "shards": 3}),
    "lda-bound": ("lda", {"field": "w", "topics": 3, "local": "bound", "prior": {"topic": 0.5}}),
}
WORDS = [b"a", b"b", b"c", "é".encode(), b"z"]


def build(example: str) -> Lda:
    kind, options = EXAMPLES[example]
    model = MODELS[kind].build(MODELS[kind].options.check(options, "model", []))
    assert isinstance(model, Lda)
    return model


def rows_of(model: WordModel, seed: int = 1, n: int = len(WORDS)) -> np.ndarray:
    return np.random.default_rng(seed).gamma(1.0, 3.0, (n, model.size))


every_example = pytest.mark.parametrize("example", EXAMPLES)


def test_every_model_of_words_has_an_example() -> None:
    assert {kind for kind, _ in EXAMPLES.values()} == {kind for kind, model in MODELS.items() if is_of_words(model)}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_has_a_posterior_of_one_vector_or_of_all_rows(kind: str) -> None:
    """Never both: so none has a method that only raises."""
    own = WordModel if is_of_words(MODELS[kind]) else Model
    members = {name for sort in (AnyModel, own) for name in vars(sort) if not name.startswith("_")}
    members |= set(inspect.get_annotations(AnyModel))
    assert [name for name in sorted(members) if not _has(MODELS[kind], name)] == []
    assert _has(MODELS[kind], "posterior") != _has(MODELS[kind], "natural_of")


def _has(model: type[AnyModel], name: str) -> bool:
    return hasattr(model, name) or name in getattr(model, "__dataclass_fields__", {})


@every_example
def test_rows_merge_and_scale_in_any_order(example: str) -> None:
    model = build(example)
    a, b, c = (rows_of(model, seed, 7) for seed in range(3))
    np.testing.assert_allclose(model.merge(model.merge(a, b), c), model.merge(a, model.merge(c, b)), rtol=1e-14)
    np.testing.assert_array_equal(model.merge(a, model.empty()), a)
    np.testing.assert_array_equal(model.scale(a, np.arange(7.0))[3], 3 * a[3])
    np.testing.assert_array_equal(model.scale(a, 1.0), a)


BROKEN = [np.nan, np.inf, -np.inf, -5e-324]


@every_example
def test_only_finite_rows_that_are_not_negative_are_proper(example: str) -> None:
    model = build(example)
    rows = np.zeros((6, model.size))
    rows[range(1, 6), 1] = [*BROKEN, 1e300]
    assert model.proper(rows).tolist() == [True, False, False, False, False, True]
    with pytest.raises(DomainError):
        model.proper(rows[:, 1:])


@every_example
@pytest.mark.parametrize("number", BROKEN)
def test_rows_that_are_not_proper_have_no_posterior(example: str, number: float) -> None:
    model = build(example)
    rows = rows_of(model)
    rows[2, 1] = number
    with pytest.raises(DomainError, match="negative or not finite"):
        model.natural_of(rows)
    with pytest.raises(DomainError, match="rows of statistics have shape"):
        model.natural_of(rows[:, 1:])


@every_example
def test_natural_parameters_are_those_of_no_events_and_the_rows(example: str) -> None:
    model = build(example)
    a, b = rows_of(model, 1), rows_of(model, 2)
    prior = model.natural_of(np.tile(model.empty(), (len(a), 1)))
    assert prior.shape == (model.size, len(a))
    assert (prior > 0).all()
    np.testing.assert_array_equal(model.natural_of(a), prior + a.T)
    both = model.natural_of(a) + model.natural_of(b) - prior
    np.testing.assert_allclose(model.natural_of(model.merge(a, b)), both, rtol=1e-14)


@every_example
def test_words_have_their_columns_in_any_order_and_grouping(example: str) -> None:
    model = build(example)
    rows = rows_of(model)
    whole, order = model.natural_of(rows), [3, 0, 4, 1, 2]
    np.testing.assert_array_equal(model.natural_of(rows[order]), whole[:, order])
    np.testing.assert_array_equal(np.hstack([model.natural_of(rows[:2]), model.natural_of(rows[2:])]), whole)
    assert model.natural_of(rows[:0]).shape == (model.size, 0)


@every_example
def test_draws_of_the_posterior_of_all_rows_have_its_moments(example: str) -> None:
    model, n = build(example), 20_000
    posterior = TopicsPosterior(model, WORDS, model.natural_of(2 + rows_of(model)))
    (moments,) = posterior.moments().values()
    (draws,) = posterior.sample(np.random.default_rng(3), n).values()
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, rtol=1e-12)
    np.testing.assert_allclose(moments.mean.sum(axis=1), 1.0, rtol=1e-12)
    assert (np.abs(draws.mean(axis=0) - moments.mean) < 5 * moments.sd / np.sqrt(n)).all()
    np.testing.assert_allclose(draws.std(axis=0), moments.sd, rtol=0.06)


@every_example
def test_it_reads_documents_and_its_posterior_predicts_them(example: str) -> None:
    model = build(example)
    rows = [{"w": ["a", "é", "a", "x"]}, {"w": {"never": 3}}, {"w": []}]
    batch = check(model.fields, rows).events.bagged
    assert set(batch.labels) <= {b"a", "é".encode(), b"x", b"never"} & (model.known or {*batch.labels})
    assert [field.most for field in model.fields] == [model.most_words]
    posterior = TopicsPosterior(model, WORDS, model.natural_of(rows_of(model)))
    densities = posterior.log_predictive(batch)
    assert densities.shape == (3,)
    assert (densities <= 0).all()
    assert densities[2] == 0.0
    found = posterior.predict(batch)
    np.testing.assert_allclose(found["topics"].sum(axis=1), 1.0, rtol=1e-12)
    assert found["words"].tolist() == [3.0, 0.0, 0.0], "x and never are not in the posterior"


def _topics_and_documents() -> tuple[np.ndarray, Bagged]:
    topics = np.array([[[0.7, 0.2, 0.1], [0.05, 0.15, 0.8]]])
    return topics, Bagged((b"a",), Documents.of([{0: 6.0}] * 20_000))


def test_simulated_documents_have_the_moments_of_mixtures_of_topics() -> None:
    """E c_w = L m_w, and E c_v c_w - [v = w] c_w = L (L - 1) E (theta · beta_v) (theta · beta_w)."""
    model, (topics, events) = build("lda-vocabulary"), _topics_and_documents()
    (made,) = model.simulate(np.random.default_rng(1), {"topics": topics}, events)
    assert made.labels == (b"a", b"never", "é".encode())
    counts = np.zeros((events.documents.n, 3))
    counts[made.documents.owners, made.documents.words] = made.documents.counts
    np.testing.assert_array_equal(counts.sum(axis=1), events.documents.lengths)
    mean = topics[0].mean(axis=0)
    assert_mean(counts - 6 * mean, 0.0)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(3)
    spread = (topics[0].T @ topics[0] / 2 - np.outer(mean, mean)) / (2 * model.alpha + 1)
    assert_mean((pairs - 30 * (np.outer(mean, mean) + spread)).reshape(-1, 9), 0.0)
    with pytest.raises(AssertionError):  # as if every word had topics of its own
        assert_mean((pairs - 30 * np.outer(mean, mean)).reshape(-1, 9), 0.0)


def test_documents_are_simulated_only_of_a_fixed_vocabulary_and_may_be_empty() -> None:
    topics, _ = _topics_and_documents()
    events = Bagged((b"a",), Documents.of([{}, {0: 2.0}, {}]))
    with pytest.raises(ValueError, match="fixed vocabulary"):
        build("lda").simulate(np.random.default_rng(1), {"topics": topics}, events)
    (made,) = build("lda-vocabulary").simulate(np.random.default_rng(1), {"topics": topics}, events)
    np.testing.assert_array_equal(made.documents.lengths, [0, 2, 0])
