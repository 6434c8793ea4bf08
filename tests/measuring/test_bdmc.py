"""Bidirectional Monte Carlo against exact evidence of conjugate regressions, and its classical mistakes."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from streaminfer.measuring import bdmc
from streaminfer.measuring.densities import Published, density_of
from streaminfer.models.targets import target_of
from streaminfer.variational.base import Base
from streaminfer.variational.methods import svb
from tests.models.examples import build

DATASETS, CHAINS, STEPS = 60, 8, 8
"""So few steps that bounds are loose, and a mistake is seen."""


class Line(NamedTuple):
    """A regression with real covariates, and the posterior of scaled-down statistics as the base."""

    model: Any
    target: Any
    events: np.ndarray
    start: np.ndarray

    @property
    def base(self) -> Published:
        return density_of(self.model.posterior(self.start), self.target)

    def log_evidence(self, events: np.ndarray) -> float:
        """log p(events) if the base is the prior."""
        after = self.model.merge(self.start, self.model.statistics(events))
        return self.model.posterior(after).log_evidence() - self.model.posterior(self.start).log_evidence()


@cache
def line(n: int = 40) -> Line:
    model = build("linear_regression", features=["a", "b"], target="y")
    events = np.random.default_rng(0).normal(size=(n, 3)) @ [[1, 0.3, 0.5], [0, 1, -1], [0, 0, 1]] + [2, 5, 1]
    return Line(model, target_of(model), events, model.scale(model.statistics(events), 0.2))


def ended(along: bdmc.Path, theta: np.ndarray, direction: bdmc.Direction, rng: np.random.Generator) -> np.ndarray:
    *_, last = bdmc.run(along, theta, direction, rng)
    return last.log_weights


class Run(NamedTuple):
    """Logs of weights (k,) less the log evidence, both ways, and those of a reverse run from draws of the base."""

    forward: np.ndarray
    reverse: np.ndarray
    mistaken: np.ndarray


@cache
def runs(steps: int = STEPS, datasets: int = DATASETS, mistaken: bool = True) -> list[Run]:
    made, found = line(), []
    for seed in range(datasets):
        rng = np.random.default_rng([seed, steps])
        theta, events = bdmc.simulated(made.model, made.target, made.base, made.events, rng)
        truth = made.log_evidence(events)
        along = bdmc.path(made.target, made.target.rows(events), made.base, steps, rng)
        forward = ended(along, made.base.sample(rng, CHAINS), "forward", rng)
        reverse = ended(along, np.tile(theta, (CHAINS, 1)), "reverse", rng)
        wrong = ended(along, made.base.sample(rng, CHAINS), "reverse", rng) if mistaken else reverse
        found.append(Run(forward - truth, reverse - truth, wrong - truth))
    return found


def is_bound(off: np.ndarray) -> bool:
    """Whether P(off > b) <= e^-b, with room for 5.5 standard errors of a binomial."""
    for b in (0.5, 1.0, 2.0, 3.0):
        p = math.exp(-b)
        if (off > b).mean() > p + 5.5 * math.sqrt(p * (1 - p) / len(off)):
            return False
    return True


def test_both_bounds_hold_with_the_probability_that_theory_says() -> None:
    bounds = np.array([bdmc.sandwich(run.forward, run.reverse) for run in runs()])
    assert is_bound(bounds[:, 0])
    assert is_bound(-bounds[:, 1])
    assert 0 < (bounds[:, 1] - bounds[:, 0]).mean() < 8


def test_a_reverse_chain_that_does_not_start_at_the_exact_draw_gives_no_bound() -> None:
    wrong = np.array([bdmc.sandwich(run.forward, run.mistaken).upper for run in runs()])
    assert not is_bound(-wrong)


def test_weights_are_unbiased_and_their_inverses_too() -> None:
    """E w = Z and E 1/w = 1/Z over data sets; chains of one data set share the exact draw."""
    found = runs(40, 40, False)
    for each in (np.exp([run.forward for run in found]), np.exp([-run.reverse for run in found])):
        means = each.mean(axis=1)
        assert abs(means.mean() - 1) < 5.5 * means.std(ddof=1) / math.sqrt(len(means))


def test_the_lower_bound_averages_weights_and_the_upper_one_their_inverses() -> None:
    """Log-normal weights of evidence e^3: forward N(3 - s/2, s), reverse N(3 + s/2, s), s = 1."""
    rng = np.random.default_rng(1)
    forward, reverse = rng.normal(2.5, 1, 100_000), rng.normal(3.5, 1, 100_000)
    lower, upper = bdmc.sandwich(forward, reverse)
    # The mean of e^x with variance e - 1 has a relative error of sqrt((e - 1) / n).
    room = 5.5 * math.sqrt(1.72 / 100_000)
    assert lower == pytest.approx(3, abs=room)
    assert upper == pytest.approx(3, abs=room)
    mistaken = bdmc.sandwich(reverse, forward).lower  # w averaged for the upper bound
    assert mistaken == pytest.approx(4, abs=5 * room)


def test_the_gap_falls_as_one_over_the_temperatures() -> None:
    """Means of log w, whose gap is the divergence of the two ways. 8 times as many temperatures, an eighth of it.

    The log of the ratio has a standard error of about 0.15; a gap that fell as 1 / sqrt(K) would be at 2.8.
    """
    few, many = (
        np.mean([run.reverse.mean() - run.forward.mean() for run in runs(steps, 40, False)]) for steps in (16, 128)
    )
    assert 2.9 < few / many < 20


def test_temperatures_are_a_sigmoid_from_zero_to_one() -> None:
    found = bdmc.temperatures(100)
    assert (found[0], found[50], found[-1]) == (0.0, pytest.approx(0.5), 1.0)
    steps = np.diff(found)
    assert (steps > 0).all()
    assert steps.argmax() in {49, 50}
    assert steps[0] == pytest.approx(steps[-1])
    with pytest.raises(ValueError, match="at least 1"):
        bdmc.temperatures(0)


def _classifier(d: int, local: str) -> Any:
    return build("logistic_regression", features=[f"x{i}" for i in range(d - 1)], target="y", local=local)


def _learned(model: Any, start: np.ndarray, events: np.ndarray, minibatch: int) -> np.ndarray:
    """The statistics after minibatches."""
    statistics = start
    for begin in range(0, len(events), minibatch):
        base = Base(1, 1, statistics, model.posterior(statistics))
        statistics = statistics + svb.step(model, base, events[begin : begin + minibatch], None).statistics
    return statistics


def _divergences(n: int, d: int, steps: int, fits: list[tuple[str, int]]) -> list[bdmc.Divergence]:
    """Of local steps with minibatches, on the same data sets and with the same bounds of the evidence."""
    rng, model = np.random.default_rng(0), _classifier(d, "ep")
    target = target_of(model)
    events = np.column_stack([rng.normal(size=(n, d - 1)) @ (np.eye(d - 1) + 0.3), np.zeros(n)])
    events = model.simulate(rng, {"weights": rng.normal(0, 0.7, (1, d))}, events)[0]
    whole = _learned(model, model.empty(), events, n)
    base, start = bdmc.base_of(model, target, whole, n), model.scale(whole, bdmc.EVENTS * d / n)
    found: list[list[bdmc.Dataset]] = [[] for _ in fits]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        theta, made = bdmc.simulated(model, target, base, events, rng)
        along = bdmc.path(target, target.rows(made), base, steps, rng)
        forward = ended(along, base.sample(rng, CHAINS), "forward", rng)
        bounds = bdmc.sandwich(forward, ended(along, np.tile(theta, (CHAINS, 1)), "reverse", rng))
        for each, (local, minibatch) in zip(found, fits, strict=True):
            fitted = _classifier(d, local)
            q = density_of(fitted.posterior(_learned(fitted, start, made, minibatch)), target_of(fitted))
            each.append(bdmc.Dataset(bounds, bdmc.elbo(q, along, np.random.default_rng(seed))))
    return [bdmc.divergence(each) for each in found]


def test_the_variational_bound_of_the_exact_posterior_is_the_evidence() -> None:
    made = line()
    rng = np.random.default_rng(3)
    theta, events = bdmc.simulated(made.model, made.target, made.base, made.events, rng)
    along = bdmc.path(made.target, made.target.rows(events), made.base, 300, rng)
    bounds = bdmc.sandwich(
        ended(along, made.base.sample(rng, 16), "forward", rng),
        ended(along, np.tile(theta, (16, 1)), "reverse", rng),
    )
    exact = density_of(made.model.posterior(made.model.merge(made.start, made.model.statistics(events))), made.target)
    bound = bdmc.elbo(exact, along, rng)
    assert bound.value == pytest.approx(made.log_evidence(events), rel=1e-9)
    assert bound.se == pytest.approx(0, abs=1e-8)
    assert abs(bounds.lower - bound.value) < 1
    assert abs(bounds.upper - bound.value) < 1


def test_minibatches_of_the_bound_diverge_and_those_of_ep_do_not() -> None:
    """Differences of divergences have no error of the evidence in them."""
    bound, ep = _divergences(200, 3, 100, [("bound", 10), ("ep", 10)])
    assert bound.lower > ep.lower + 0.1
    assert ep.lower < 0.02 + 5.5 * ep.lower_se
    assert ep.upper > -5.5 * ep.upper_se
    assert bound.datasets == 10
    assert bound.gap == pytest.approx(bound.upper - bound.lower)


@pytest.mark.long
def test_the_divergence_of_the_bound_grows_with_minibatches() -> None:
    batch, streamed, ep = _divergences(500, 5, 1000, [("bound", 500), ("bound", 64), ("ep", 64)])
    assert batch.lower > ep.lower + 0.1
    assert streamed.lower > batch.lower + 0.1
    assert abs(ep.upper) < 0.1 + 5.5 * ep.upper_se


def test_a_mixture_has_bounds_too() -> None:
    model = build("gaussian_mixture", fields=["u"], components=2)
    target, rng = target_of(model), np.random.default_rng(4)
    events = np.concatenate([rng.normal(-2, 1, (30, 1)), rng.normal(2, 0.5, (30, 1))])
    q = model.posterior(model.empty())
    for _ in range(30):
        q = model.posterior(model.expected(q, events))
    base = bdmc.base_of(model, target, model.expected(q, events), len(events))
    theta, made = bdmc.simulated(model, target, base, events, rng)
    along = bdmc.path(target, target.rows(made), base, 150, rng)
    states = list(bdmc.run(along, base.sample(rng, 4), "forward", rng))
    assert [state.done for state in states] == list(range(1, 151))
    assert states[-1].n_accepted > 0.2 * 4 * 149
    lower, upper = bdmc.sandwich(states[-1].log_weights, ended(along, np.tile(theta, (4, 1)), "reverse", rng))
    assert -1 < upper - lower < 20


def test_what_cannot_be_annealed_is_refused_by_name() -> None:
    made, rng = line(), np.random.default_rng(1)
    none = made.base._replace(density=None)
    with pytest.raises(ValueError, match="no density"):
        bdmc.path(made.target, made.target.rows(made.events), none, 10, rng)
    along = bdmc.path(made.target, made.target.rows(made.events), made.base, 10, rng)
    with pytest.raises(ValueError, match="no variational bound"):
        bdmc.elbo(none, along, rng)
    with pytest.raises(ValueError, match="at least 2 data sets"):
        bdmc.divergence([])

    class Plain:
        kind = "plain"

    with pytest.raises(TypeError, match="plain cannot simulate"):
        bdmc.simulated(Plain(), made.target, made.base, made.events, rng)


def test_curvature_by_differences_is_that_of_the_target() -> None:
    made = line()

    class Uncurved:
        def __getattr__(self, name: str) -> Any:
            if name == "curvature":
                raise AttributeError(name)
            return getattr(made.target, name)

    rows = made.target.rows(made.events)
    one, other = (bdmc.path(t, rows, made.base, 10, np.random.default_rng(2)) for t in (made.target, Uncurved()))
    np.testing.assert_allclose(other.curvatures, one.curvatures, rtol=1e-4, atol=1e-4)
