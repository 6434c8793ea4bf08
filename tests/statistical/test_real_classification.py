"""One pass over real data: classifiers of web pages, held-out log loss next to that of the batch MAP.

Nothing is drawn: the data, their order and what is held out are fixed, so there are no false alarms. Features are 0,
0.5 or 1 and enter as 2 x - 1, the only standardisation. Every fifth page is held out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

from streaminfer.models.model import Model
from streaminfer.variational import base, fold, svb
from streaminfer.variational.increment import Increment
from tests.models.examples import build
from tests.variational.plain import SVB

DATA = Path(__file__).parents[1] / "data" / "phishing.csv"
MINIBATCH = 64
LOG_LIKELIHOOD = {
    "logistic_regression": (special.log_expit, lambda a: special.expit(-a)),
    "probit_regression": (
        special.log_ndtr,
        lambda a: np.exp(-0.5 * a**2 - special.log_ndtr(a)) / np.sqrt(2 * np.pi),
    ),
}
"""By kind: log f and its derivative."""


@pytest.fixture(scope="module")
def pages() -> tuple[np.ndarray, np.ndarray]:
    """(learned from, held out)."""
    rows = np.loadtxt(DATA, delimiter=",", skiprows=1)
    events = np.column_stack([2 * rows[:, :-1] - 1, rows[:, -1]])
    held_out = np.arange(len(events)) % 5 == 4
    return events[~held_out], events[held_out]


def classifier(kind: str, **options: Any) -> Any:
    names = DATA.read_text().split("\n", 1)[0].split(",")
    return build(kind, features=names[:-1], target=names[-1], **options)


def one_pass(model: Model, events: np.ndarray) -> np.ndarray:
    """The statistics that a master has after it folded the increments of all minibatches in turn."""
    snapshot = replace(fold.start(model, "f"), frontier={0: 0})
    for begin in range(0, len(events), MINIBATCH):
        batch = events[begin : begin + MINIBATCH]
        step = svb.step(model, base.of(model, SVB, snapshot), batch)
        increment = Increment(
            fingerprint="f", writer="w", topic="t", partition=0, begin=begin, end=begin + len(batch),
            n_events=len(batch), n_dead_lettered=0, n_lost=0, base_version=snapshot.version, score=step.score,
            statistics=step.statistics,
        )  # fmt: skip
        snapshot, outcome = fold.add(model, snapshot, increment, snapshot.version)
        assert outcome is fold.Outcome.FOLDED
        snapshot = replace(snapshot, version=snapshot.version + 1)
    return snapshot.statistics


def map_weights(model: Any, events: np.ndarray) -> np.ndarray:
    rows, signs = model.design(events)
    log_f, slope = LOG_LIKELIHOOD[model.kind]

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        a = signs * (rows @ w)
        around = w - model.prior.mean
        value = -log_f(a).sum() + 0.5 * (model.prior.precision * around**2).sum()
        return value, -rows.T @ (signs * slope(a)) + model.prior.precision * around

    found = optimize.minimize(loss, model.prior.mean, jac=True, method="L-BFGS-B", options={"ftol": 1e-14})
    assert found.success
    return found.x


def log_loss_of_map(model: Any, learned: np.ndarray, held_out: np.ndarray) -> float:
    rows, signs = model.design(held_out)
    return -float(LOG_LIKELIHOOD[model.kind][0](signs * (rows @ map_weights(model, learned))).mean())


@pytest.mark.parametrize("kind", LOG_LIKELIHOOD)
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_one_pass_is_within_5_percent_of_the_map(kind: str, covariance: str, pages: tuple[np.ndarray, ...]) -> None:
    learned, held_out = pages
    model = classifier(kind, covariance=covariance)
    ours = -float(model.posterior(one_pass(model, learned)).log_predictive(held_out).mean())
    rate = learned[:, -1].mean()
    intercept_only = -float(np.log(np.where(held_out[:, -1] == 1, rate, 1 - rate)).mean())
    assert ours <= 1.05 * log_loss_of_map(model, learned, held_out)
    assert ours <= 0.5 * intercept_only
