"""One step of streaming variational Bayes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.models.model import Model
from streaminfer.variational.base import Base, prior
from streaminfer.variational.methods import svb
from tests.models.examples import EXAMPLES, Example, model_of
from tests.variational.guarded import Guarded

ALL = pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])


@ALL
def test_an_empty_minibatch_changes_nothing(example: Example) -> None:
    model = model_of(example)
    step = svb.step(model, prior(model), np.empty((0, len(model.fields))))
    assert step.score == 0.0
    assert step.statistics.tolist() == model.empty().tolist()


@ALL
def test_the_step_is_the_statistics_and_the_score_of_the_base(example: Example) -> None:
    model: Model = model_of(example)
    events = example.events(np.random.default_rng(1), 20)
    statistics = model.statistics(events[:5])
    base = model.posterior(statistics)
    step = svb.step(model, Base(1, 5, statistics, base), events[5:])
    assert np.array_equal(step.statistics, model.statistics(events[5:]))
    assert step.score == pytest.approx(float(sum(base.log_predictive(events[i : i + 1])[0] for i in range(5, 20))))


@pytest.mark.parametrize("x", [1e200, math.inf])
def test_a_score_stays_finite(x: float) -> None:
    model = Guarded()
    with np.errstate(over="ignore"):
        step = svb.step(model, prior(model), np.array([[x]]))
    assert step.score == svb.LOWEST
    assert math.isfinite(10**7 * svb.LOWEST)
