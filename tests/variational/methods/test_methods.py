"""What workers learn by each method: memoized visits of filters, the first step of svi, and how old a base may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models.model import Absorbed, Model
from streaminfer.spec import Inference, Spec, parse_spec
from streaminfer.variational import base, methods
from streaminfer.variational.base import Base
from streaminfer.variational.methods import svb, svi
from tests.models.latent_examples import LATENT_EXAMPLES, Example, model_of

EVENTS = next(each for each in LATENT_EXAMPLES if each.name == "logistic").events(np.random.default_rng(5), 60)
KINDS = pytest.mark.parametrize("kind", ["logistic_regression", "probit_regression"])


def spec_of(kind: str, method: str = "memoized", **model: Any) -> Spec:
    options = {"kind": kind, "features": ["a", "b"], "target": "y", **model}
    return parse_spec({"name": "demo", "model": options, "inference": {"method": method}})


def based(model: Model, statistics: np.ndarray, n_events: int = 40) -> Base:
    return Base(3, n_events, statistics, model.posterior(statistics))


@KINDS
def test_a_visit_learns_on_the_posterior_less_its_own(kind: str) -> None:
    spec = spec_of(kind)
    model, batch = spec.model, EVENTS[:20]
    others = svb.step(model, base.prior(model), EVENTS[20:]).statistics
    own = svb.step(model, based(model, others), batch).statistics
    found = methods.learn(model, spec.inference, based(model, others + own), batch, None, own)
    wanted = svb.step(model, based(model, others + own - own), batch)
    np.testing.assert_array_equal(found.statistics, wanted.statistics)
    np.testing.assert_allclose(found.statistics, own, rtol=1e-9, atol=1e-9)
    assert found.n_unconverged == 0
    twice = methods.learn(model, spec.inference, based(model, others + own), batch, None, None)
    assert np.abs(twice.statistics - own).max() > 1e-3, "otherwise the test shows nothing"


@KINDS
def test_a_first_visit_is_a_step_of_svb(kind: str) -> None:
    spec = spec_of(kind)
    newest = base.prior(spec.model)
    found = methods.learn(spec.model, spec.inference, newest, EVENTS)
    wanted = svb.step(spec.model, newest, EVENTS)
    np.testing.assert_array_equal(found.statistics, wanted.statistics)
    assert found.score == wanted.score


@KINDS
def test_a_cavity_out_of_the_domain_keeps_the_old_statistics_and_is_counted(kind: str) -> None:
    spec = spec_of(kind)
    model, batch = spec.model, EVENTS[:20]
    held = svb.step(model, base.prior(model), EVENTS).statistics
    own = 3 * held
    found = methods.learn(model, spec.inference, based(model, held), batch, None, own)
    np.testing.assert_array_equal(found.statistics, own)
    assert found.n_unconverged == len(batch)
    assert found.score == svb.score(based(model, held), batch)


@KINDS
def test_a_batch_without_events_has_nothing(kind: str) -> None:
    spec = spec_of(kind)
    held = svb.step(spec.model, base.prior(spec.model), EVENTS).statistics
    found = methods.learn(spec.model, spec.inference, based(spec.model, held), EVENTS[:0], None, held)
    assert (found.statistics.tolist(), found.score, found.n_unconverged) == (spec.model.empty().tolist(), 0.0, 0)


def test_only_memoized_visits_of_filters_need_the_cavity() -> None:
    for method in ("svb", "svi", "memoized"):
        spec = spec_of("logistic_regression", method)
        assert methods.visits_cavity(spec.model, spec.inference) is (method == "memoized")
    bound = spec_of("logistic_regression", local="bound")
    assert not methods.visits_cavity(bound.model, bound.inference)


class Counting:
    """Says how many times `absorb` was called, and never converges."""

    def __init__(self, model: Any) -> None:
        self.__dict__.update(model=model, times=[])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def absorb(self, q: Any, events: np.ndarray, weights: np.ndarray | None = None) -> Absorbed:
        self.times.append(weights)
        return self.model.absorb(q, events, weights)._replace(converged=False)


def test_what_has_not_converged_is_counted_by_events() -> None:
    model: Any = Counting(spec_of("logistic_regression").model)
    assert svb.step(model, base.prior(model), EVENTS[:7]).n_unconverged == 7
    assert svi.step(model, base.prior(model), EVENTS[:7]).n_unconverged == 7


@KINDS
def test_the_first_step_of_svi_is_the_local_optimum(kind: str) -> None:
    """Expectations under a vague prior are not: they are those of a later step."""
    spec = spec_of(kind, "svi")
    model: Any = spec.model
    first = svi.step(model, base.prior(model), EVENTS)
    np.testing.assert_array_equal(first.statistics, svb.step(model, base.prior(model), EVENTS).statistics)
    assert np.abs(first.statistics - model.expected(base.prior(model).posterior, EVENTS)).max() > 1e-2
    later = based(model, first.statistics)
    found = svi.step(model, later, EVENTS[:20])
    np.testing.assert_array_equal(found.statistics, model.expected(later.posterior, EVENTS[:20]))


@KINDS
@pytest.mark.parametrize(("local", "within"), [("laplace", 1e-6), ("ep", 0.01)])
def test_with_a_population_the_first_minibatch_stands_for_it(kind: str, local: str, within: float) -> None:
    """Times N / n it gives the posterior of as many events as the population has; by ep a site of weight 10 is not
    quite ten sites."""
    spec = spec_of(kind, "svi", local=local)
    model, n, population = spec.model, len(EVENTS), 600
    found = svi.step(model, base.prior(model), EVENTS, population)
    repeated = svb.step(model, base.prior(model), np.repeat(EVENTS, population // n, axis=0))
    np.testing.assert_allclose(found.statistics * population / n, repeated.statistics, rtol=within, atol=within)
    few = svi.step(model, base.prior(model), EVENTS).statistics
    assert np.abs(found.statistics - few).max() > 0.1, "a vague prior counts for less among more events"


@pytest.mark.parametrize("example", LATENT_EXAMPLES, ids=[each.name for each in LATENT_EXAMPLES])
def test_how_many_events_are_learned_side_by_side(example: Example) -> None:
    """None from a base of less than 20 events for each weight of a regression; other models take as many as it has."""
    model: Any = model_of(example)
    serial = 20 * len(model.weights_mean) if hasattr(model, "weights_mean") else 0
    for n in (0, 10, 59, 60, 61, 1000):
        allowed = max(0, n - serial)
        assert base.side_by_side(model, n) == allowed
        assert not base.too_old(model, n + allowed, n)
        assert base.too_old(model, n + allowed + 1, n)


def test_inference_decides_the_method_and_local_iterations() -> None:
    """A mixture that may pass once over a minibatch has not converged, and says so."""
    model = {"kind": "gaussian_mixture", "fields": ["a", "b"], "components": 2}
    once, many = (
        parse_spec({"name": "demo", "model": model, "inference": {"local_iterations": count}}) for count in (1, 500)
    )
    assert isinstance(once.inference, Inference)
    for spec, expected in ((once, len(EVENTS)), (many, 0)):
        found = methods.learn(spec.model, spec.inference, base.prior(spec.model), EVENTS[:, :2])
        assert found.n_unconverged == expected
