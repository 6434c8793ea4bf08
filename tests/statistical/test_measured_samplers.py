"""What 95% intervals of sampled posteriors hold, as the monitor says it and really: by importance sampling, or exactly.

One sampler has steps that are too large. The data and all draws are fixed, so there are no false alarms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special, stats

from streaminfer import fit
from streaminfer.measuring import functions, score_regression, whitening
from streaminfer.measuring.scores import AllEvents
from streaminfer.models.targets import target_of
from streaminfer.models.targets.density import Density
from streaminfer.spec import Spec, parse_spec
from streaminfer.tables.draws import sampled
from tests.statistical.importance import truth

ERROR = 0.04
DRAWS = 1000


class Case(NamedTuple):
    kind: str
    options: dict[str, Any]
    inference: dict[str, Any]
    least: float
    """What the worst interval holds less than, or more than if it is negative: so that a case is what it says."""


CASES = {
    "mala": Case("logistic_regression", {}, {"method": "mala", "chains": 2, "draws": 1000}, -0.9),
    "sgld": Case(
        "logistic_regression",
        {},
        {
            "method": "sgld",
            "chains": 2,
            "draws": 1500,
            "step": {"size": 0.8},
            "minibatch": 64,
            "control_variates": False,
        },
        2.0,
    ),
    "poisson": Case("poisson", {}, {"method": "mh", "chains": 2, "draws": 1000}, -0.9),
}
SEEDS = range(6)


def spec_of(case: Case) -> Spec:
    fields = {"field": "k"} if case.kind == "poisson" else {"features": [f"x{i}" for i in range(4)], "target": "y"}
    return parse_spec(
        {"name": "demo", "data": {"partitions": 1}, "model": {"kind": case.kind, **fields, **case.options},
         "inference": case.inference}
    )  # fmt: skip


def rows_of(case: Case, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    if case.kind == "poisson":
        return [{"k": int(k)} for k in rng.poisson(3.0, 300)]
    n = 1500
    features = np.sqrt(0.7) * rng.normal(size=(n, 1)) + np.sqrt(0.3) * rng.normal(size=(n, 4))
    margins = features @ rng.normal(size=4) - 0.5
    chances = special.expit(margins) if case.kind == "logistic_regression" else special.ndtr(margins)
    ones = rng.random(n) < chances
    names = [f"x{i}" for i in range(4)]
    return [{**dict(zip(names, x, strict=True)), "y": int(y)} for x, y in zip(features.tolist(), ones, strict=True)]


def told(spec: Spec, posterior: Any, snapshot: Any, events: np.ndarray) -> score_regression.Regression:
    """As the check coverage does it."""
    target, batch = target_of(spec.model), 1
    if spec.sampling is None:
        drawn = posterior.sample(np.random.default_rng(7), DRAWS)
    else:
        drawn, shown = posterior.parameters, sampled(snapshot).shown
        batch = max(1, round(shown.n_draws / shown.n_effective_draws * len(posterior.retained) / shown.n_draws))
    theta = target.unconstrain(drawn)
    place = whitening.of_draws(theta)
    watched = functions.of(target, spec.model.labels, place)
    score = AllEvents(Density(target, target.rows(events)))
    return score_regression.measure(theta, score.parts, published=place, functions=watched.rows, batch=batch)


def real(spec: Spec, posterior: Any, events: np.ndarray) -> np.ndarray:
    """What intervals of the mean and 1.96 deviations hold of the true posterior."""
    ((_, moments),) = posterior.moments().items()
    ends = [np.atleast_1d(moments.mean + sign * score_regression.Z * moments.sd) for sign in (-1, 1)]
    if spec.model.kind == "poisson":
        exact = stats.gamma(1 + events[:, 0].sum(), scale=1 / (1 + len(events)))
        return np.asarray(exact.cdf(ends[1]) - exact.cdf(ends[0]))
    found = truth(spec.model, events, draws=8_000)
    assert found.worth > 4_000
    return np.asarray(found.weights @ ((found.draws > ends[0]) & (found.draws < ends[1])))


def compared(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    case = CASES[name]
    spec, rows = spec_of(case), rows_of(case, seed)
    found = fit(spec, rows)
    events = np.array([[row[field.name] for field in spec.model.fields] for row in rows], dtype=np.float64)
    return told(spec, found.posterior, found.snapshot, events).coverage, real(spec, found.posterior, events)


def check(name: str, seed: int) -> None:
    estimated, held = compared(name, seed)
    least = CASES[name].least
    assert held.min() < least if least > 0 else held.min() > -least, held
    np.testing.assert_allclose(estimated, held, atol=ERROR)


@pytest.mark.parametrize("name", CASES)
def test_what_intervals_hold_is_told_right(name: str) -> None:
    check(name, 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS[1:])
@pytest.mark.parametrize("name", CASES)
def test_what_intervals_hold_is_told_right_for_other_data(name: str, seed: int) -> None:
    check(name, seed)
