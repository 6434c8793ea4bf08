"""What stochastic and memoized inference rest on, for LDA: identities to rounding, and the mistakes they show."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.lda.documents import Documents
from streaminfer.models.model import Matrix
from streaminfer.variational.lda.absorb import absorb
from streaminfer.variational.lda.local import local
from tests.variational.lda.corpora import Setting, drawn, svi

SETTING = Setting(tuple(b"%d" % i for i in range(50)), 4)
DOCUMENTS = drawn(70, 50, 4, 30.0, seed=0)


def unequal() -> list[Documents]:
    """Minibatches of 5, 20 and 45 documents."""
    return [DOCUMENTS.select(part) for part in np.split(np.arange(70), [5, 25])]


def test_a_full_step_on_all_documents_is_one_of_coordinate_ascent() -> None:
    once = absorb(SETTING.prior, DOCUMENTS, SETTING.alpha, None, SETTING.start(), iterations=1)
    stochastic = svi(SETTING, [DOCUMENTS], passes=1, tau=1.0, kappa=1.0)
    np.testing.assert_allclose(stochastic.rows, SETTING.prior.plus(once.statistics).rows, rtol=1e-10)


def test_the_average_of_noisy_gradients_by_size_is_the_full_one() -> None:
    """gradient = prior + N / |B| statistics - lambda. The mutant is the plain average, wrong if sizes differ."""
    topics = SETTING.prior.plus(SETTING.start())

    def gradient(batch: Documents) -> Matrix:
        statistics = local(topics, batch, SETTING.alpha).statistics
        return SETTING.concentration + DOCUMENTS.n / batch.n * statistics - topics.rows

    noisy, full = np.array([gradient(batch) for batch in unequal()]), gradient(DOCUMENTS)
    np.testing.assert_allclose(np.average(noisy, axis=0, weights=[5, 20, 45]), full, rtol=1e-10, atol=1e-10)
    assert np.abs(noisy.mean(axis=0) - full).max() > 1.0


def test_statistics_are_scaled_by_the_documents_of_now() -> None:
    """N seen so far, kappa = 1: the mean statistics times the N of now count as N documents.

    The mutant scales each minibatch by the N there was when it was sent, and ends with about N / 2.
    """
    batches = DOCUMENTS.split(1)
    right, mutant, seen = np.zeros((50, 4)), np.zeros((50, 4)), 0
    topics = SETTING.prior.plus(SETTING.start())
    for t, batch in enumerate(batches):
        statistics, rho = local(topics, batch, SETTING.alpha).statistics, 1 / (1 + t)
        seen += batch.n
        right = (1 - rho) * right + rho * statistics / batch.n
        mutant = (1 - rho) * mutant + rho * statistics * seen / batch.n
    words_of_one = DOCUMENTS.lengths.mean()
    assert (seen * right).sum() / words_of_one == pytest.approx(seen, rel=1e-10)
    assert mutant.sum() / words_of_one == pytest.approx(seen / 2, rel=0.1)


def test_visits_replace_what_a_minibatch_said_before_and_never_lower_the_bound() -> None:
    """Memoized inference: the sum of what minibatches said last, each with the gamma its documents had."""
    batches = unequal()
    said: list[Matrix] = []
    gammas: list[Matrix] = []
    for batch in batches:
        found = local(SETTING.prior.plus(SETTING.start()), batch, SETTING.alpha)
        said.append(found.statistics)
        gammas.append(found.gamma)
    running, bounds = sum(said), []
    for visit in range(18):
        i = visit % 3
        found = local(SETTING.prior.plus(running), batches[i], SETTING.alpha, gamma=gammas[i])
        running = running - said[i] + found.statistics
        said[i], gammas[i] = found.statistics, found.gamma
        topics = SETTING.prior.plus(running)
        bounds.append(SETTING.elbo(topics, DOCUMENTS, np.vstack(gammas)))
    np.testing.assert_allclose(running, sum(said), rtol=1e-9, atol=1e-9)
    assert (np.diff(bounds) >= -1e-8 * np.abs(bounds[:-1])).all()


def test_one_minibatch_of_all_documents_is_batch_inference() -> None:
    batch = absorb(SETTING.prior, DOCUMENTS, SETTING.alpha, None, SETTING.start(), iterations=6, settled=0.0, warm=True)
    said, gamma = local(SETTING.prior.plus(SETTING.start()), DOCUMENTS, SETTING.alpha)[:2]
    for _ in range(5):
        said, gamma, _ = local(SETTING.prior.plus(said), DOCUMENTS, SETTING.alpha, gamma=gamma)
    np.testing.assert_allclose(batch.statistics, said, rtol=1e-10, atol=1e-12)


def test_weights_count_documents_as_often_as_they_say() -> None:
    weights = np.where(np.arange(70) < 30, 1.0, 0.0)
    some = absorb(SETTING.prior, DOCUMENTS.select(np.arange(30)), SETTING.alpha, None, SETTING.start(), 5)
    weighted = absorb(SETTING.prior, DOCUMENTS, SETTING.alpha, weights, SETTING.start(), 5)
    np.testing.assert_allclose(weighted.statistics, some.statistics, rtol=1e-9, atol=1e-12)
