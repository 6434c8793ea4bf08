"""The posterior of draws against posteriors in closed form, from which the draws are.

A column of numbers from all draws is compared with the exact one; 40 batches of the draws say how far off it may be. 8
of such standard errors, with 39 degrees of freedom, are a false alarm of 1e-9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from streaminfer.models.model import DomainError
from streaminfer.models.targets import target_of
from streaminfer.sampling import flat
from streaminfer.sampling.pooled.pooling import Chain, pool
from streaminfer.sampling.pooled.posterior import DrawsPosterior
from tests.contracts.model_harness import extremes
from tests.models.examples import Example, build
from tests.models.targets.cases import ALL, every_target
from tests.models.targets.test_own import Waiting
from tests.sampling.exact_draws import known, posterior

ROOM, BATCHES, DRAWS = 8, 40, 20_000
named = {example.name: example for example in ALL}


def errors(batches: list[np.ndarray]) -> np.ndarray:
    """Standard errors of a number from all draws."""
    return np.asarray(np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches)))


@every_target
def test_moments_are_those_of_the_draws_under_the_names_of_the_model(example: Example) -> None:
    case = known(example)
    draws = case.draws(np.random.default_rng(5), 3000)
    found, exact = posterior(case.target, draws).moments(), case.exact.moments()
    assert list(found) == list(exact)
    for name, values in flat.unflatten(draws, case.target.shapes).items():
        mean, sd, cov = found[name]
        assert mean.shape == sd.shape == exact[name].mean.shape
        np.testing.assert_allclose(mean, values.mean(axis=0), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(sd, values.std(axis=0), rtol=1e-9, atol=1e-12)
        assert (cov is None) == (exact[name].cov is None)
        if cov is not None:
            np.testing.assert_allclose(cov, np.cov(values, rowvar=False, ddof=0), rtol=1e-8, atol=1e-12)


@every_target
def test_predictions_are_those_of_the_closed_form(example: Example) -> None:
    case = known(example)
    draws = case.draws(np.random.default_rng(), DRAWS)
    exact = case.exact.predict(case.inputs, 0.9)
    found = posterior(case.target, draws).predict(case.inputs, 0.9)
    batches = [posterior(case.target, each).predict(case.inputs, 0.9) for each in np.split(draws, BATCHES)]
    assert list(found) == list(exact)
    for name, values in found.items():
        assert values.shape == exact[name].shape
        room = ROOM * errors([each[name] for each in batches])
        # a quantile of counts jumps; what is nearly impossible is so by few draws, whose deviation nobody knows
        room += 1 if example.kind == "poisson" and name in {"lower", "upper"} else 1e-5
        assert (np.abs(values - exact[name]) <= room).all(), name


@pytest.mark.parametrize("name", ["line", "exposed", "logistic", "cloud", "die"])
def test_wrong_draws_are_seen_in_predictions(name: str) -> None:
    """A planted mistake: draws with half as much spread, or of another place, leave the room of the test above."""
    case = known(named[name])
    draws = case.draws(np.random.default_rng(6), DRAWS)
    exact = case.exact.predict(case.inputs, 0.9)
    for moved in (draws.mean(axis=0) + 0.5 * (draws - draws.mean(axis=0)), draws + 0.5 * draws.std(axis=0)):
        wrong = moved / moved.sum(axis=1, keepdims=True) if name == "die" else moved
        found = posterior(case.target, wrong).predict(case.inputs, 0.9)
        batches = [posterior(case.target, each).predict(case.inputs, 0.9) for each in np.split(wrong, BATCHES)]
        seen = [
            (np.abs(found[each] - exact[each]) > ROOM * errors([b[each] for b in batches]) + 1e-5).any()
            for each in found
        ]
        assert any(seen)


@every_target
def test_log_predictive_densities_are_those_of_the_closed_form(example: Example) -> None:
    case = known(example)
    draws = case.draws(np.random.default_rng(), DRAWS)
    exact = case.exact.log_predictive(case.events)
    ratios = np.exp(posterior(case.target, draws).log_predictive(case.events) - exact)
    batches = [
        np.exp(posterior(case.target, each).log_predictive(case.events) - exact) for each in np.split(draws, BATCHES)
    ]
    assert (np.abs(ratios - 1) <= ROOM * errors(batches) + 1e-9).all()
    assert posterior(case.target, draws).log_predictive(case.events[:0]).shape == (0,)


@every_target
def test_no_rows_some_rows_and_extreme_rows_have_predictions(example: Example) -> None:
    case = known(example)
    found = posterior(case.target, case.draws(np.random.default_rng(7), 200))
    whole = found.predict(case.inputs, 0.9)
    wider = found.predict(case.inputs, 0.99)
    for name, values in whole.items():
        np.testing.assert_allclose(found.predict(case.inputs[2:4], 0.9)[name], values[2:4], rtol=1e-9)
        assert found.predict(case.inputs[:0], 0.9)[name].shape == (0, *values.shape[1:])
    if "lower" in whole:
        assert (wider["lower"] <= whole["lower"]).all()
        assert (whole["upper"] <= wider["upper"]).all()
    columns = [case.model.fields.index(each) for each in case.model.inputs]
    for values in found.predict(np.vstack(extremes(case.model))[:, columns], 0.95).values():
        assert np.isfinite(values).all()


@pytest.mark.parametrize("name", ["coin", "die", "count"])
def test_probabilities_and_rates_that_have_left_the_numbers(name: str) -> None:
    """A draw of p = 0 or 1 is a draw: densities are never NaN."""
    case = known(named[name])
    d = flat.size(case.target.shapes)
    draws = np.zeros((4, d))
    draws[:, -1] = 1.0
    draws[0] = 0.5 if d == 1 else 1 / d
    found = posterior(case.target, draws)
    logs = found.log_predictive(case.events)
    assert np.isfinite(logs).all()
    for values in found.predict(case.inputs, 0.9).values():
        assert np.isfinite(values).all()
    only = posterior(case.target, draws[1:])
    assert not np.isnan(only.log_predictive(case.events)).any()


def test_samples_are_retained_draws_and_stay_together() -> None:
    case = known(named["line"])
    draws = case.draws(np.random.default_rng(8), 50)
    found = posterior(case.target, draws).sample(np.random.default_rng(), 20_000)
    assert {name: values.shape[1:] for name, values in found.items()} == dict(case.target.shapes)
    rows = flat.flatten(found, case.target.shapes)
    which = np.array([np.flatnonzero((draws == row).all(axis=1))[0] for row in rows[:2000]])
    assert len(set(which)) == 50
    counts = np.bincount(np.searchsorted(np.sort(draws[:, 0]), rows[:, 0]), minlength=50)
    assert stats.chisquare(counts).pvalue > 1e-7
    again = [posterior(case.target, draws).sample(np.random.default_rng(1), 5)["weights"] for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_draws_of_many_numbers_have_deviations_but_no_covariances() -> None:
    target = target_of(build("categorical", field="c", categories=[str(i) for i in range(65)]))
    draws = np.random.default_rng(9).dirichlet(np.ones(65), 100)
    found = posterior(target, draws).moments()["p"]
    assert found.cov is None
    np.testing.assert_allclose(found.sd, draws.std(axis=0), rtol=1e-10)


@pytest.mark.parametrize(
    ("counts", "shape"),
    [
        ((5, 5, 5), (3, 5)),
        ((6, 5, 6), (3, 5)),
        ((9, 0, 8), (2, 8)),
        ((9, 2, 9), (2, 9)),
        ((4,), (1, 4)),
        ((0, 0), (0, 0)),
    ],
)
def test_chains_have_their_own_newest_draws(counts: tuple[int, ...], shape: tuple[int, int]) -> None:
    target = target_of(build("gaussian", fields=["a"]))
    of = np.repeat(np.arange(len(counts)), counts)
    draws = np.column_stack([of, np.arange(1, len(of) + 1)]).astype(float)
    statistics = pool([Chain(draws, np.ones(len(draws)))], True, np.random.default_rng(0)).statistics
    found = DrawsPosterior(target, statistics.vector, draws, counts).chains()
    assert found["mean"].shape == (*shape, 1)
    assert found["cov"].shape == (*shape, 1, 1)
    for chain, time in zip(found["mean"], found["cov"], strict=True):
        assert len(set(chain.ravel())) == 1
        assert time[-1, 0, 0] == np.flatnonzero(of == chain[0, 0])[-1] + 1
        assert (np.diff(time.ravel()) == 1).all()


def test_what_draws_do_not_have() -> None:
    case = known(named["coin"])
    found = posterior(case.target, case.draws(np.random.default_rng(1), 10))
    assert found.family == "draws"
    assert found.natural.shape == (0,)
    assert np.isnan(found.log_evidence())


def test_what_does_not_fit_is_refused() -> None:
    case = known(named["coin"])
    draws = case.draws(np.random.default_rng(1), 10)
    vector = posterior(case.target, draws).vector
    for wrong, said in (
        ((vector[:-1], draws, (10,)), "statistics have shape"),
        ((vector, np.hstack([draws, draws]), (10,)), "retained draws have shape"),
        ((vector, draws, (4, 5)), "together not 10"),
        ((vector, draws, (11, -1)), "together not 10"),
        ((vector, np.full_like(draws, np.nan), (10,)), "not finite"),
    ):
        with pytest.raises(DomainError, match=said):
            DrawsPosterior(case.target, *wrong)
    none = DrawsPosterior(case.target, vector, draws[:0], ())
    assert none.moments()["p"].mean.shape == ()
    for ask in (lambda: none.sample(np.random.default_rng(1), 3), lambda: none.predict(np.empty((1, 0)), 0.9)):
        with pytest.raises(DomainError, match="no draws are retained"):
            ask()


def test_a_target_of_ones_own_may_predict_or_not() -> None:
    class Foretelling(Waiting):
        def predictions(self, parameters: Any, inputs: np.ndarray, level: float) -> dict[str, np.ndarray]:
            return {"mean": np.full(len(inputs), (1 / parameters["rate"]).mean())}

    draws = np.array([[1.0], [2.0]])
    with pytest.raises(TypeError, match="cannot predict by draws: it has no predictions"):
        posterior(Waiting(), draws).predict(np.empty((2, 0)), 0.9)
    for target in (Foretelling(), target_of(Foretelling())):  # type: ignore[arg-type]
        assert posterior(target, draws).predict(np.empty((2, 0)), 0.9)["mean"].tolist() == [0.75, 0.75]
    with pytest.raises(TypeError, match="cannot predict by draws: it has no predictions"):
        posterior(target_of(Waiting()), draws).predict(np.empty((2, 0)), 0.9)  # type: ignore[arg-type]
