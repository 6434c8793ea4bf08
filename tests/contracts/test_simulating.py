"""What every model that makes up events must satisfy: they have the distribution that its densities say.

Statistical checks leave 6 standard errors: each false alarm is below 2e-9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models import MODELS
from streaminfer.variational.base import Base
from streaminfer.variational.methods import svb
from tests.contracts.test_targets import assert_mean
from tests.models.examples import EXAMPLES, Example, model_of
from tests.models.latent_examples import LATENT_EXAMPLES

ALL = [*EXAMPLES, *LATENT_EXAMPLES]
every_model = pytest.mark.parametrize("example", ALL, ids=[example.name for example in ALL])
DRAWS = 20_000


def test_every_model_simulates() -> None:
    assert all(hasattr(made, "simulate") for made in MODELS.values())


def _posterior(example: Example, n: int) -> Any:
    """Some posterior, after one minibatch of n events."""
    model, events = model_of(example), example.events(np.random.default_rng(n), n)
    base = Base(1, 1, model.empty(), model.posterior(model.empty()))
    return model.posterior(svb.step(model, base, events, None).statistics)


def _ratios(example: Example, seed: int, **wrong: float) -> np.ndarray:
    """q/p of events that are drawn from p, the predictive of a posterior; q is that of one with more events."""
    model, rng = model_of(example), np.random.default_rng(seed)
    wide, narrow, at = _posterior(example, 12), _posterior(example, 60), example.events(rng, 1)
    drawn = {name: values * wrong.get(name, 1.0) for name, values in wide.sample(rng, DRAWS).items()}
    events = model.simulate(rng, drawn, at)
    assert events.shape == (DRAWS, *at.shape)
    events = events[:, 0]
    return np.exp(narrow.log_predictive(events) - wide.log_predictive(events))[:, None]


@every_model
def test_events_have_the_distribution_of_the_predictive(example: Example) -> None:
    """E[q/p] = 1 for events from p and any density q."""
    assert_mean(_ratios(example, 1), 1.0)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("coin", {"p": 0.8}),
        ("exposed", {"rate": 1.3}),
        ("cloud", {"cov": 2.0}),
        ("line", {"noise_variance": 2.0}),
        ("logistic", {"weights": -1.0}),
    ],
)
def test_events_of_other_parameters_are_found(name: str, wrong: dict[str, float]) -> None:
    example = next(each for each in ALL if each.name == name)
    ratios = _ratios(example, 1, **wrong)
    with pytest.raises(AssertionError):
        assert_mean(ratios, 1.0)
