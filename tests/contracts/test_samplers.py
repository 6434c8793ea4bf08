"""What every stochastic-gradient sampler must satisfy on every model with curvature, with its default options.

Means are within 0.05 posterior deviations and deviations within 5%, on the unconstrained scale, plus 5.5 Monte Carlo
standard errors. The truth is importance sampling from a t distribution at the mode.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from streaminfer.models.targets import mode
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.sampling import methods
from streaminfer.sampling.gradients import tuning
from streaminfer.sampling.kernels import sghmc, sgld, sgnht
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key
from tests.models.examples import Example
from tests.models.targets.cases import ALL, case

METHODS = {"sgld": sgld, "sghmc": sghmc, "sgnht": sgnht}
KEY = Key(12, "steps")
EVENTS = 200
BATCHES = 200
FIRST = {example.kind: example.name for example in reversed(ALL)}


def is_quick(method: str, example: Example) -> bool:
    """Compiled loops are quick, and sghmc needs the fewest steps."""
    first = FIRST[example.kind] == example.name
    return first and (method == "sghmc" or example.kind == "logistic_regression")


CELLS = [
    pytest.param(method, example, id=f"{method}-{example.name}", marks=[] if quick else [pytest.mark.long])
    for method in METHODS
    for example in ALL
    if methods.has_bias_step(case(example).target)
    for quick in [is_quick(method, example)]
]


class Truth(NamedTuple):
    """Means and deviations (d,) of a posterior, and how many draws they are worth."""

    mean: np.ndarray
    sd: np.ndarray
    worth: float


def truth(density: Density, found: mode.Mode, n: int = 40_000, freedom: float = 8.0) -> Truth:
    assert found.curvature is not None
    rng, d = np.random.default_rng(1), density.dimension
    factor = np.linalg.cholesky(found.curvature)
    z = rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(freedom, n) / freedom)[:, None]
    draws = found.theta + np.linalg.solve(factor.T, z.T).T
    logs = density.log_density(draws) + 0.5 * (freedom + d) * np.log1p((z**2).sum(axis=1) / freedom)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ draws
    return Truth(mean, np.sqrt(weights @ (draws - mean) ** 2), 1 / float((weights**2).sum()))


def chain(method: Any, dynamics: Dynamics, start: np.ndarray, steps: int) -> np.ndarray:
    """Positions (steps, d) after a quarter of warm-up."""
    rng = KEY.of("start").generator(0)
    state = {
        sgld: lambda: sgld.init(start),
        sghmc: lambda: sghmc.init(start, dynamics.preconditioner, rng),
        sgnht: lambda: sgnht.init(start, rng),
    }[method]()
    state, _, _ = method.steps(dynamics, state, KEY.generator(0), steps // 4)
    _, block, info = method.steps(dynamics, state, KEY.generator(1), steps)
    assert info.n_undone == 0
    return np.asarray(block.positions)


@pytest.mark.parametrize(("method", "example"), CELLS)
def test_default_options_are_as_right_as_they_say(method: str, example: Example) -> None:
    target, rows, _ = case(example, n=EVENTS)
    density = Density(target, rows)
    found = mode.find(density)
    made = tuning.tuned(density, found, method, KEY.of("noise").generator(0))
    right = truth(density, found)
    assert right.worth > 10_000
    start = tuning.start(found, made.dynamics.preconditioner, KEY.of("start").generator(1))
    short = is_quick(method, example) and not isinstance(target, Margins)
    path = chain(METHODS[method], made.dynamics, start, 20_000 if short else 200_000)
    away = (path - right.mean) / right.sd
    extra = 5.5 / np.sqrt(right.worth)
    for values, expected, tolerance in ((away, 0.0, 0.05), (away**2, 1.0, 0.1)):
        each = values.reshape(BATCHES, -1, values.shape[1]).mean(axis=1)
        error = 5.5 * each.std(axis=0, ddof=1) / np.sqrt(BATCHES)
        assert (error < 0.35).all()
        # The mean of squares around the true mean has the squared bias of the mean in it as well.
        assert (np.abs(each.mean(axis=0) - expected) < tolerance + error + 2 * extra).all()
