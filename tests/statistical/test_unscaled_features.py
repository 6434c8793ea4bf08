"""Logistic regression on features in the units that they come in, by the defaults of a spec and by every method.

Flights (delays in minutes, distances in miles) and tumours (30 features whose deviations are from 0.003 to 570). Every
fifth row is held out; nothing is drawn but the truth, with a fixed seed, so there are no false alarms.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

from streaminfer import fit
from tests.models.examples import build
from tests.statistical.importance import Distance, Truth, distance, truth
from tests.statistical.tables import table

ONE_PASS: dict[str, Any] = {}
SVI, MEMOIZED = {"method": "svi"}, {"method": "memoized", "epochs": 3}


class Real(NamedTuple):
    """Columns, what is learned from and what is held out, the true posterior and the MAP's held-out log loss."""

    names: list[str]
    learned: np.ndarray
    held_out: np.ndarray
    exact: Truth
    log_loss: float


@cache
def real(name: str) -> Real:
    names, rows = table(f"{name}.csv.gz")
    held_out = np.arange(len(rows)) % 5 == 4
    model = build("logistic_regression", features=names[:-1], target=names[-1])
    exact = truth(model, rows[~held_out], 8000)
    assert exact.worth > 2500
    design, signs = model.design(rows[held_out])
    log_loss = -float(special.log_expit(signs * (design @ exact.mode)).mean())
    return Real(names, rows[~held_out], rows[held_out], exact, log_loss)


def learned(data: Real, inference: dict[str, Any], **options: Any) -> tuple[float, Distance]:
    """The held-out log loss as a multiple of the MAP's, and how far the posterior is from the true one."""
    names = data.names
    model = {"kind": "logistic_regression", "features": names[:-1], "target": names[-1], **options}
    rows = [dict(zip(names, row, strict=True)) for row in data.learned.tolist()]
    posterior: Any = fit({"name": "real", "model": model, "inference": inference}, rows).posterior
    log_loss = -float(posterior.log_predictive(data.held_out).mean())
    return log_loss / data.log_loss, distance(data.exact, posterior.moments()["weights"])


@pytest.mark.parametrize("inference", [ONE_PASS, SVI, MEMOIZED])
def test_the_log_loss_of_flights_is_within_2_percent_of_the_maps(inference: dict[str, Any]) -> None:
    assert learned(real("flights"), inference)[0] <= 1.02


@pytest.mark.parametrize(
    ("inference", "most"),
    [
        (ONE_PASS, 1.02),
        (MEMOIZED, 1.02),
        ({**SVI, "epochs": 30}, 1.08),
        ({**SVI, "epochs": 30, "minibatch": 228}, 1.02),
    ],
)
def test_the_log_loss_of_tumours_is_near_the_maps(inference: dict[str, Any], most: float) -> None:
    """There are 455 to learn from: two minibatches, one of which is smaller and has as large a part in svi's steps."""
    assert learned(real("breast_cancer"), inference)[0] <= most


@pytest.mark.parametrize(
    ("name", "inference", "shift", "narrowest", "coverage"),
    [
        ("flights", ONE_PASS, 0.15, 0.96, 0.94),
        ("flights", MEMOIZED, 0.03, 0.96, 0.94),
        ("breast_cancer", ONE_PASS, 0.25, 0.87, 0.9),
        ("breast_cancer", MEMOIZED, 0.08, 0.91, 0.92),
    ],
)
def test_the_posterior_is_the_true_one(
    name: str, inference: dict[str, Any], shift: float, narrowest: float, coverage: float
) -> None:
    _, found = learned(real(name), inference)
    assert found.shift <= shift, found
    assert found.narrowest >= narrowest, found
    assert found.widest <= 1.07, found
    assert found.coverage >= coverage, found


def test_the_bound_is_far_off() -> None:
    """The mutant: with its local step all weights of the flights are much too sure."""
    _, found = learned(real("flights"), ONE_PASS, local="bound")
    assert found.shift > 3
    assert found.coverage < 0.05


@pytest.mark.parametrize("inference", [ONE_PASS, SVI, {"method": "memoized"}, MEMOIZED])
def test_a_feature_with_a_deviation_of_200_has_its_weight(inference: dict[str, Any]) -> None:
    """0.02, from a prior deviation of 1: odds of 200 at the start."""
    rng = np.random.default_rng(1)
    x = 200 * rng.normal(size=5000)
    events = np.column_stack([x, rng.random(5000) < special.expit(0.02 * x)]).astype(np.float64)
    model = {"kind": "logistic_regression", "features": ["x"], "target": "y"}
    rows = [{"x": x, "y": y} for x, y in events.tolist()]
    moments = fit({"name": "wide", "model": model, "inference": inference}, rows).moments["weights"]
    found = distance(truth(build(**model), events), moments)
    assert moments.mean[1] == pytest.approx(0.02, abs=0.001)
    assert found.shift < 0.35
    assert found.coverage > 0.92
