"""What every method of sampling must satisfy on every model that it fits, with its default options, through `fit`.

Means are within 0.05 posterior deviations and deviations within 5%, plus 5.5 Monte Carlo standard errors by 200
batches: a false alarm is below 2e-7 for each number, and below 1e-4 for all together. On the unconstrained scale the
truth is importance sampling from a t distribution at the mode; on the user's scale it is the conjugate posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.models.model import is_conjugate
from streaminfer.models.targets import mode
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.reading import NUMBERS
from streaminfer.runtime.api import sampled_fit
from streaminfer.sampling import flat
from streaminfer.sampling.chains.table import OF_NUMBERS
from streaminfer.sampling.choices import methods
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import fast, sghmc, sgld, sgrld
from streaminfer.sampling.pooled.pooling import Chain
from streaminfer.spec import Spec, parse_spec
from tests.models.examples import Example
from tests.models.targets.cases import ALL, case

EVENTS = 200
BATCHES = 200
SEVERAL_MODES = {"clouds", "skewed-clouds", "too-many-components"}
"""Mixtures whose chains see one of the modes, as no method here crosses from one to another."""
EXAMPLES = {example.name: example for example in ALL if example.name not in SEVERAL_MODES}
FIRST = {example.kind: example.name for example in reversed(EXAMPLES.values())}
SHORT: dict[str, Any] = {"chains": 2, "draws": 500}


def is_quick(method: str, example: Example) -> bool:
    """Compiled loops and conditional draws are quick, and sghmc needs the fewest steps.

    Conditional draws of every model have their own tests in every run.
    """
    if FIRST[example.kind] != example.name:
        return False
    if example.kind == "gaussian_mixture":
        return method == "sghmc"
    if example.kind == "logistic_regression":
        return method not in {"mh", "subsampled_mh"}
    return method == "sgrld" or (method, example.kind) in {("gibbs", "poisson"), ("sghmc", "probit_regression")}


CELLS = [
    pytest.param(method, example, id=f"{method}-{example.name}", marks=[] if quick else [pytest.mark.long])
    for method in OF_NUMBERS
    for example in EXAMPLES.values()
    if methods.missing(case(example).target, method) is None
    for quick in [is_quick(method, example)]
]


class Truth(NamedTuple):
    """Means and deviations (d,) of a posterior, and how many draws they are worth."""

    mean: np.ndarray
    sd: np.ndarray
    worth: float


def truth(density: Density, n: int = 40_000, freedom: float = 8.0) -> Truth:
    found = mode.find(density)
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


def events_of(example: Example) -> np.ndarray:
    return example.events(np.random.default_rng(1), EVENTS)


def spec_of(example: Example, method: str, **inference: Any) -> Spec:
    return parse_spec(
        {
            "name": "demo",
            "model": {"kind": example.kind, **example.options},
            "inference": {"method": method, **inference},
        }
    )


def rows_of(spec: Spec, events: np.ndarray) -> list[dict[str, Any]]:
    labels = [dict(enumerate(field.categories)) for field in spec.fields]
    names = [field.name for field in spec.fields]
    return [
        {name: by.get(int(x), x) for name, by, x in zip(names, labels, row, strict=True)} for row in events.tolist()
    ]


def excess(paths: Sequence[np.ndarray], right: Truth) -> float:
    """By how much means or variances of chains (n, d) exceed what they may be off; below 0 if all is well.

    Draws are worth enough for that to mean something.
    """
    found = -np.inf
    for power, expected, tolerance in ((1, 0.0, 0.05), (2, 1.0, 0.1)):
        parts = [((path - right.mean) / right.sd) ** power for path in paths]
        each = np.concatenate([part.reshape(BATCHES // len(paths), -1, part.shape[1]).mean(axis=1) for part in parts])
        error = each.std(axis=0, ddof=1) / np.sqrt(BATCHES)
        room = tolerance + 5.5 * error + 11 / np.sqrt(right.worth)
        found = max(found, float((np.abs(each.mean(axis=0) - expected) - room).max()))
    return found


def sampled(example: Example, method: str, **inference: Any) -> tuple[Spec, list[Chain]]:
    spec = spec_of(example, method, **inference)
    assert spec.sampling is not None
    gathered = sampled_fit.gathered(spec, spec.sampling, rows_of(spec, events_of(example)))
    return spec, gathered.chains(0, 0)


def unconstrained(spec: Spec, chains: Sequence[Chain]) -> list[np.ndarray]:
    target = spec.target
    return [target.unconstrain(flat.unflatten(chain.draws, target.shapes)) for chain in chains]


SURE = Example(
    "sure-die",
    "categorical",
    {**EXAMPLES["die"].options, "prior": {"concentration": [40, 5, 5]}},
    EXAMPLES["die"].events,
)
"""With a prior that counts."""
EXAMPLES_OF_MUTANTS = {**EXAMPLES, SURE.name: SURE}


@cache
def right_of(name: str) -> Truth:
    made = case(EXAMPLES_OF_MUTANTS[name], n=EVENTS)
    found = truth(Density(made.target, made.rows))
    assert found.worth > 10_000
    return found


@pytest.mark.parametrize(("method", "example"), CELLS)
def test_default_options_are_as_right_as_they_say(method: str, example: Example) -> None:
    spec, chains = sampled(example, method, **(SHORT if is_quick(method, example) else {}))
    theta = unconstrained(spec, chains)
    assert excess(theta, right_of(example.name)) < 0
    if is_conjugate(spec.model):
        exact = fit(spec_of(example, "svb"), rows_of(spec, events_of(example)))
        mean, sd = (
            flat.flatten({name: each[None] for name, each in values.items()}, spec.target.shapes)[0]
            for values in (exact.mean, exact.sd)
        )
        assert excess([chain.draws for chain in chains], Truth(mean, sd, np.inf)) < 0


def prior_counts_twice(patch: pytest.MonkeyPatch) -> None:
    twice = NUMBERS._replace(density=lambda target, rows, share: Density(target, rows, 2 * share))
    patch.setattr(sampled_fit, "reading_of", lambda target: twice)


def scale_is_dropped(patch: pytest.MonkeyPatch) -> None:
    """Gradients of a minibatch are not multiplied by N/B."""

    def estimate(self: Gradients, theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
        density = replace(self.density, rows=self.density.rows[indices])
        found = density.gradient(theta[None])[0]
        if self.anchor is None:
            return found
        return found - density.likelihood_gradient(self.anchor.position[None])[0] + self.anchor.gradient

    patch.setattr(fast, "given", lambda gradients: None)
    patch.setattr(Gradients, "__call__", estimate)
    patch.setattr(sgrld, "scaled_counts", lambda c, i, k: counted(c, i, k) * i.shape[1] / len(c))


counted = sgrld.scaled_counts


def noise_is_too_small(patch: pytest.MonkeyPatch) -> None:
    """Its deviation is a variance: the root is missing."""

    def spread(noise: np.ndarray, size: Any, by: Preconditioner) -> Any:
        return size * by.spread(noise)

    deviation = sghmc._deviation
    patch.setattr(fast, "given", lambda gradients: None)
    patch.setattr(sgld, "_spread", spread)
    patch.setattr(sghmc, "_deviation", lambda *arguments: deviation(*arguments) ** 2)


MUTANTS: list[tuple[str, str, Callable[[pytest.MonkeyPatch], None]]] = [
    *(
        (method, "skewed-logistic", prior_counts_twice)
        for method in ("mala", "gibbs", "sgld", "sghmc", "sgnht", "poisson_mh", "flymc")
    ),
    ("sgrld", "sure-die", prior_counts_twice),
    *((method, "logistic", scale_is_dropped) for method in ("sgld", "sghmc", "sgnht")),
    ("sgrld", "die", scale_is_dropped),
    *((method, "logistic", noise_is_too_small) for method in ("sgld", "sghmc")),
]
REPEATED = {(method, mistake) for method in ("sghmc", "sgnht") for mistake in (prior_counts_twice, scale_is_dropped)}
"""Their gradients are those of sgld."""


@pytest.mark.parametrize(
    ("method", "name", "mutant"),
    [pytest.param(*each, marks=[pytest.mark.long] if each[::2] in REPEATED else []) for each in MUTANTS],
)
def test_mutants_are_not(
    method: str, name: str, mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classical mistakes fail the same check."""
    example = EXAMPLES_OF_MUTANTS[name]
    small = {} if method in {"mala", "gibbs", "poisson_mh", "flymc"} else {"minibatch": 32}
    right = right_of(name)
    mutant(monkeypatch)
    assert excess(unconstrained(*sampled(example, method, **SHORT, **small)), right) > 0


def test_mutants_are_of_the_check_that_the_methods_pass() -> None:
    """With the minibatches of the mutants as well."""
    spec, chains = sampled(EXAMPLES["logistic"], "sghmc", **SHORT, minibatch=32)
    assert excess(unconstrained(spec, chains), right_of("logistic")) < 0
