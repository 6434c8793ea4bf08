"""Statistics say of how many events they are, so that an increment cannot claim more than it counts."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.model import Counting, conjugate, is_conjugate
from streaminfer.variational.admission import within
from tests.models.examples import EXAMPLES, Example, model_of

CONJUGATE = [example for example in EXAMPLES if is_conjugate(model_of(example))]


@pytest.mark.parametrize("example", CONJUGATE, ids=[example.name for example in CONJUGATE])
def test_statistics_of_n_events_are_within_n_and_of_many_more_are_not(example: Example) -> None:
    model, n = conjugate(model_of(example)), 20
    assert isinstance(model, Counting)
    events = example.events(np.random.default_rng(1), n)
    weights = np.linspace(0.1, 1.0, n)
    for given in (None, weights, np.ones(n)):
        assert within(model, model.statistics(events, given)[None], n).all()
    if getattr(model, "exposure", None) is None:  # with exposures of any size the statistics do not tell
        total = model.total_weight(model.statistics(events, weights)[None])
        np.testing.assert_allclose(total, weights.sum(), rtol=1e-12)
        assert not within(model, model.statistics(events)[None], n - 1).any()
