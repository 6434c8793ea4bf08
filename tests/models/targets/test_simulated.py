"""Events that models simulate, against the likelihoods of their targets. Checks leave 6 standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.models.model import Simulating
from streaminfer.models.targets.density import scores
from tests.contracts.test_targets import assert_mean
from tests.models.examples import Example, model_of
from tests.models.targets.cases import case, every_target


def _residuals(target: Any, rows: np.ndarray, theta: np.ndarray, batch: int = 20) -> np.ndarray:
    """Scores, and their squares less the curvature, summed by batches of rows.

    Both have the mean 0 if rows are drawn at theta (Bartlett 1953).
    """
    each = scores(target, theta, rows)
    squares = (each * each).reshape(-1, batch, len(theta)).sum(axis=1)
    bends = [target.curvature(theta, part).diagonal() for part in rows.reshape(-1, batch, rows.shape[1])]
    return np.hstack([each.reshape(-1, batch, len(theta)).sum(axis=1), squares - bends])


@every_target
def test_scores_of_simulated_events_have_mean_zero_and_the_variance_of_the_information(example: Example) -> None:
    target, _, theta = case(example, k=1)
    events = example.events(np.random.default_rng(4), 4000)
    model = model_of(example)
    assert isinstance(model, Simulating)
    made = model.simulate(np.random.default_rng(5), target.constrain(theta), events)[0]
    values = _residuals(target, target.rows(made), theta[0])
    assert_mean(values[:, values.std(axis=0) > 0], 0.0)


@every_target
def test_what_is_not_explained_stays_and_many_draws_are_as_one_by_one(example: Example) -> None:
    target, _, theta = case(example, k=3)
    model, events = model_of(example), example.events(np.random.default_rng(6), 7)
    assert isinstance(model, Simulating)
    made = model.simulate(np.random.default_rng(7), target.constrain(theta), events)
    assert made.shape == (3, 7, len(model.fields))
    assert np.isfinite(made).all()
    names = {field.name for field in getattr(model, "inputs", ())}
    if len(names) < len(model.fields):
        for i, field in enumerate(model.fields):
            if field.name in names:
                np.testing.assert_array_equal(made[:, :, i], np.tile(events[:, i], (3, 1)))
    assert model.simulate(np.random.default_rng(7), target.constrain(theta[:0]), events).shape == (0, *made.shape[1:])
    assert model.simulate(np.random.default_rng(7), target.constrain(theta), events[:0]).shape == (3, 0, made.shape[2])
