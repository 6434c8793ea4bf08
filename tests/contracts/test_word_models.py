"""What a model of words must satisfy: rows of words merge as statistics do, and only proper ones are taken."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models import MODELS
from streaminfer.models.lda import Lda
from streaminfer.models.model import DomainError

OF_WORDS = [kind for kind, model in MODELS.items() if issubclass(model, Lda)]


def build(kind: str) -> Lda:
    options = MODELS[kind].options.check({"field": "w", "topics": 4}, "model", [])
    model = MODELS[kind].build(options)
    assert isinstance(model, Lda)
    return model


@pytest.mark.parametrize("kind", OF_WORDS)
def test_rows_merge_and_scale_in_any_order(kind: str) -> None:
    model, rng = build(kind), np.random.default_rng(1)
    a, b, c = rng.gamma(1.0, 3.0, (3, 7, model.size))
    np.testing.assert_allclose(model.merge(model.merge(a, b), c), model.merge(a, model.merge(c, b)), rtol=1e-14)
    np.testing.assert_array_equal(model.merge(a, model.empty()), a)
    np.testing.assert_array_equal(model.scale(a, np.arange(7.0))[3], 3 * a[3])
    np.testing.assert_array_equal(model.scale(a, 1.0), a)


@pytest.mark.parametrize("kind", OF_WORDS)
def test_only_finite_rows_that_are_not_negative_are_proper(kind: str) -> None:
    model = build(kind)
    rows = np.zeros((6, model.size))
    rows[range(1, 6), 2] = [np.nan, np.inf, -np.inf, -5e-324, 1e300]
    assert model.proper(rows).tolist() == [True, False, False, False, False, True]
    with pytest.raises(DomainError):
        model.proper(rows[:, 1:])


@pytest.mark.parametrize("kind", OF_WORDS)
def test_one_word_has_no_posterior(kind: str) -> None:
    model = build(kind)
    with pytest.raises(DomainError):
        model.posterior(model.empty())
