"""The models of docs/own-models.md: they keep the contract of all models, and have the posterior that theory says."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from queue_models.visits import Visits, VisitsPosterior
from queue_models.waiting import WaitingTime
from scipy import optimize, special, stats

from streaminfer import fit, parse_spec
from streaminfer.families import beta, gamma
from streaminfer.models.model import (
    Conjugate,
    DomainError,
    Filter,
    Latent,
    Model,
    Posterior,
    Predicting,
    Predicts,
    is_conjugate,
)
from streaminfer.variational import base
from streaminfer.variational.methods import coordinate_ascent
from tests.contracts import test_approximate_models as approximate
from tests.contracts import test_model_posteriors, test_model_priors, test_model_rows, test_models, test_simulating
from tests.docs.pages import PAGES
from tests.models.examples import Example, build

WAITING = "queue_models.waiting:WaitingTime"
VISITS = "queue_models.visits:Visits"
PRIOR = {"alpha": 2.0, "beta": 3.0, "shape": 1.5, "rate": 0.5}


def _times(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.exponential(4.0, (n, 1))


def _customers(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random((n, 1)) < 0.3, 0.0, rng.poisson(1.2, (n, 1)))


EXAMPLES = [
    Example("waiting", WAITING, {"field": "minutes"}, _times),
    Example("skewed-waiting", WAITING, {"field": "minutes", "prior": {"shape": 0.5, "rate": 20}}, _times),
]
"""Conjugate models: one of yours goes here, and all checks of `CONTRACT` run on it."""
CONTRACT = [test_models, test_model_rows, test_model_priors, test_model_posteriors, test_simulating]
LATENT_EXAMPLES = [
    Example("visits", VISITS, {"field": "k"}, _customers),
    Example("skewed-visits", VISITS, {"field": "k", "prior": PRIOR}, _customers),
]
"""Other models: one of yours goes here, and all checks of `approximate` run on it."""
NOT_ITS = {
    "test_the_predictive_of_a_binary_target_sums_to_one",  # it has counts
    "test_no_events_give_the_prior",  # of a family in the table; this one has a name of its own
    "test_natural_parameters_are_those_of_the_family",
}


def _checks(module: ModuleType, left_out: Collection[str] = ()) -> Iterator[Any]:
    """All checks of a contract that are given an example, with each value of what else they take."""
    for name, check in vars(module).items():
        if name.startswith("test_") and "example" in inspect.signature(check).parameters and name not in left_out:
            marks = [mark for mark in check.pytestmark if mark.name == "parametrize" and mark.args[0] != "example"]
            for values in [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]:
                yield pytest.param(check, values, id="-".join([name[5:], *map(str, values.values())]))


CHECKS = [check for module in CONTRACT for check in _checks(module)]
APPROXIMATE_CHECKS = list(_checks(approximate, NOT_ITS))


@pytest.mark.parametrize(("check", "values"), CHECKS)
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_the_contract_of_conjugate_models(check: Callable[..., None], values: dict[str, Any], example: Example) -> None:
    check(example, **values)


@pytest.mark.parametrize(("check", "values"), APPROXIMATE_CHECKS)
@pytest.mark.parametrize("example", LATENT_EXAMPLES, ids=[example.name for example in LATENT_EXAMPLES])
def test_the_contract_of_other_models(check: Callable[..., None], values: dict[str, Any], example: Example) -> None:
    check(example, **values)


def test_the_contracts_are_not_empty() -> None:
    assert len(CHECKS) >= 20
    assert all(any(_checks(module)) for module in CONTRACT)
    assert len(APPROXIMATE_CHECKS) >= 10
    assert set(vars(approximate)) >= NOT_ITS


def test_their_sorts() -> None:
    assert is_conjugate(WaitingTime("t"))
    assert not isinstance(WaitingTime("t"), Latent)
    assert isinstance(Visits("k"), Latent)
    assert not is_conjugate(Visits("k"))


def test_waiting_times_have_their_closed_form() -> None:
    times = np.random.default_rng(1).exponential(4.0, 1000)
    model = {"kind": WAITING, "field": "minutes", "prior": {"shape": 2, "rate": 10}}
    spec = parse_spec({"name": "waiting", "model": model, "inference": {"minibatch": 64}})
    found = fit(spec, [{"minutes": t} for t in times.tolist()])
    exact = stats.gamma(1002, scale=1 / (10 + math.fsum(times)))
    assert found.mean["rate"] == pytest.approx(exact.mean(), rel=1e-12)
    assert found.sd["rate"] == pytest.approx(exact.std(), rel=1e-12)
    assert found.log_predictive({"minutes": 3.0}) == pytest.approx(
        stats.lomax(1002, scale=10 + math.fsum(times)).logpdf(3.0), rel=1e-9
    )
    document = found.to_json()
    assert (document["model"], document["family"], document["exactness"]) == (WAITING, "gamma", "exact")


def _weighted(forget: dict[str, float], times: np.ndarray, weights: np.ndarray) -> None:
    spec = parse_spec(
        {
            "name": "waiting",
            "model": {"kind": WAITING, "field": "minutes"},
            "inference": {"minibatch": 64, "forget": forget},
            "drift": {},
        }
    )
    found = fit(spec, [{"minutes": t} for t in times.tolist()])
    exact = [1 + math.fsum(weights), 1 + math.fsum(weights * times)]
    np.testing.assert_allclose(found.posterior.natural, exact, rtol=1e-11)


def test_waiting_times_are_forgotten_as_theory_says() -> None:
    times, ages = np.random.default_rng(3).exponential(4.0, 1000), np.arange(999.0, -1.0, -1.0)
    _weighted({"half_life_events": 100}, times, 0.5 ** (ages / 100))
    _weighted({"window_events": 64}, times, (ages < 64).astype(float))


def _visits(n: int, rate: float = 1.2) -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.where(rng.random((n, 1)) < 0.3, 0.0, rng.poisson(rate, (n, 1)))


def _ascended(model: Visits, events: np.ndarray, passes: int = 500) -> VisitsPosterior:
    return model.posterior(coordinate_ascent.ascended(model, base.prior(model), events, None, passes, 1e-13).statistics)


def _evidence(model: Visits, events: np.ndarray) -> float:
    """log p(events) by quadrature over both parameters."""
    zeros, n = float((events == 0).sum()), len(events)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    closed, rate = ((nodes + 1) / 2)[:, None], 3 * (nodes + 1)
    seen = zeros * np.logaddexp(np.log(closed), np.log1p(-closed) - rate)
    seen = seen + (n - zeros) * (np.log1p(-closed) - rate) + events.sum() * np.log(rate)
    log_priors = stats.beta(model.alpha, model.beta).logpdf(closed) + stats.gamma(
        model.shape, scale=1 / model.rate
    ).logpdf(rate)
    measure = np.log(np.outer(weights / 2, 3 * weights))
    return float(special.logsumexp(seen + log_priors + measure) - special.gammaln(events + 1).sum())


def test_the_bound_of_visits_is_below_the_evidence_and_near_it() -> None:
    model, events = build(VISITS, field="k", prior=PRIOR), _visits(40)
    gap = _evidence(model, events) - model.elbo(_ascended(model, events), events)
    assert 0 < gap < 1


def test_the_posterior_of_visits_is_where_the_bound_is_largest() -> None:
    """The updates and the bound are written apart: a wrong one of either has another maximum."""
    model, events = build(VISITS, field="k", prior=PRIOR), _visits(300)
    found = _ascended(model, events)

    def loss(logs: np.ndarray) -> float:
        a, b, shape, rate = np.exp(logs).tolist()
        return -model.elbo(VisitsPosterior(beta.Parameters(a, b), gamma.Parameters(shape, rate)), events)

    best = optimize.minimize(loss, np.log(found.natural * 1.2), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(np.exp(best.x), found.natural, rtol=1e-4)
    assert -best.fun <= model.elbo(found, events) + 1e-8


def test_the_bound_of_visits_never_falls() -> None:
    model, events = build(VISITS, field="k"), _visits(200)
    bounds = [model.elbo(_ascended(model, events, passes), events) for passes in range(1, 12)]
    assert (np.diff(bounds) >= -1e-9).all()
    assert bounds[-1] > bounds[0] + 1e-3


def test_the_probability_that_forgets_the_rate_is_found() -> None:
    """The classical mistake: r from the odds of closed alone, as if a zero said nothing about the rate."""

    class Forgetful(VisitsPosterior):
        def closed_if_zero(self) -> float:
            log_closed, log_open = self.log_closed()
            return float(special.expit(log_closed - log_open))

    model, events = build(VISITS, field="k", prior=PRIOR), _visits(300)
    right = _ascended(model, events)
    q: VisitsPosterior = right
    for _ in range(500):
        q = model.posterior(model.expected(Forgetful(q.on_closed, q.on_rate), events))
    assert model.elbo(q, events) < model.elbo(right, events) - 1.0


@pytest.mark.parametrize("counts", [[0.0], [0.0] * 50, [2.0**53], [2.0**53, 0.0] * 3, [5.0]])
def test_odd_visits_are_absorbed(counts: list[float]) -> None:
    """Warnings are errors in this suite."""
    for prior in ({}, dict.fromkeys(PRIOR, 1e-50), dict.fromkeys(PRIOR, 1e50)):
        model, events = build(VISITS, field="k", prior=prior), np.array(counts)[:, None]
        q = _ascended(model, events, 20)
        assert np.isfinite(q.natural).all()
        assert np.isfinite(q.log_predictive(events)).all()
        assert all(np.isfinite(value).all() for m in q.moments().values() for value in m[:2])
        assert math.isfinite(model.elbo(q, events))


def test_broken_statistics_give_no_posterior() -> None:
    model = build(VISITS, field="k")
    for bad in ([np.nan, 1, 1], [-1, 1, 1], [1, np.inf, 1], [1, 1]):
        with pytest.raises(DomainError):
            model.posterior(np.array(bad, dtype=np.float64))


@pytest.mark.parametrize("method", ["svb", "svi"])
def test_visits_are_learned_from_a_stream(method: str) -> None:
    """Near the posterior of all events at once.

    By svi the last minibatches weigh more, by svb the first were judged by a vague posterior. Over 30 seeds both
    differ by 1.1 sd (rms) at most, so that 7 have false alarms of less than 1e-9.
    """
    events = _visits(20_000, rate=3.0)
    inference = {"method": method, "minibatch": 256}
    spec = parse_spec({"name": "visits", "model": {"kind": VISITS, "field": "k"}, "inference": inference})
    found, whole = fit(spec, [{"k": int(k)} for k in events[:, 0]]), _ascended(Visits("k"), events).moments()
    for name, (mean, sd, _) in whole.items():
        assert abs(found.mean[name] - mean) <= 7 * sd
        assert found.sd[name] == pytest.approx(sd, rel=0.05)
    assert (found.to_json()["family"], found.to_json()["exactness"]) == ("beta-gamma", "bound")
    assert found.to_json()["log_evidence"] is None


def test_the_page_names_every_member() -> None:
    page = PAGES["docs/own-models.md"]
    for sort in (Model, Conjugate, Latent, Filter, Posterior, Predicts, Predicting):
        for name in [*vars(sort), *inspect.get_annotations(sort)]:
            assert name.startswith("_") or re.search(rf"`(?:.*`, `)?{name}\b", page), name
