"""Coordinate ascent: the bound never falls, and a wrong update is seen to let it fall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.families import FAMILIES
from streaminfer.models.mixture import components
from streaminfer.variational import base
from streaminfer.variational.methods.coordinate_ascent import ascended
from tests.models.examples import build

FIELDS = ["u", "v"]


def blob(n: int, centre: float = 0.0) -> np.ndarray:
    """Two clouds without a clear border."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, 2)) @ [[1.0, 0.5], [0.0, 1.0]] + np.where(rng.random((n, 1)) < 0.4, 1.2, -1.2) + centre


CASES: dict[str, tuple[int, dict[str, Any], np.ndarray]] = {
    "overlapping": (3, {}, blob(150)),
    "more components than needed": (10, {"concentration": 0.1}, blob(80)),
    "strong prior": (3, {"kappa": 20.0, "dof": 30.0, "scale": 50.0}, blob(80)),
    "few events": (4, {}, blob(6)),
    "far from zero": (3, {"mean": 1e7}, blob(150, 1e7)),
    "far from the prior mean": (3, {}, blob(150, 1e4)),
    "constant": (3, {}, np.full((20, 2), 2.0)),
    "a line": (3, {}, blob(60)[:, :1] * [1.0, 2.0]),
}


def bounds(components_: int, prior: dict[str, Any], events: np.ndarray, steps: int = 40) -> np.ndarray:
    """The bound after each step."""
    model = build("gaussian_mixture", fields=FIELDS, components=components_, prior=prior)
    q, found = model.posterior(model.empty()), []
    for _ in range(steps):
        q = model.posterior(model.expected(q, events))
        found.append(model.elbo(q, events))
    return np.array(found)


def assert_never_falls(found: np.ndarray) -> None:
    """By more than 1e-8 of itself."""
    assert (np.diff(found) >= -1e-8 * np.abs(found[1:])).all()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_bound_never_falls(case: tuple[int, dict[str, Any], np.ndarray]) -> None:
    assert_never_falls(bounds(*case))


def test_the_bound_rises() -> None:
    found = bounds(*CASES["overlapping"])
    assert found[-1] > found[0] + 1


def without_digamma_of_the_precision(right: Any) -> Any:
    """log|E[precision]| for E log|precision|."""

    def wrong(of: Any, events: np.ndarray) -> np.ndarray:
        halves = 0.5 * (of.dof[:, None] - np.arange(2))
        return right(of, events) + 0.5 * (np.log(halves) - components.psi(halves)).sum(axis=1)[:, None]

    return wrong


def without_uncertainty_of_the_mean(right: Any) -> Any:
    return lambda of, events: right(of, events) + 0.5 * 2 / of.kappa[:, None]


@pytest.mark.parametrize("mistake", [without_digamma_of_the_precision, without_uncertainty_of_the_mean])
def test_wrong_responsibilities_let_the_bound_of_the_right_ones_fall(
    mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step by the mistake from the end of the right steps."""
    right = components.expected_log_densities
    components_, prior, events = CASES["more components than needed"]
    model = build("gaussian_mixture", fields=FIELDS, components=components_, prior=prior)
    q = model.posterior(ascended(model, base.prior(model), events, iterations=3000, tolerance=1e-10).statistics)
    before = model.elbo(q, events)
    monkeypatch.setattr(components, "expected_log_densities", mistake(right))
    statistics = model.expected(q, events)
    monkeypatch.setattr(components, "expected_log_densities", right)
    with pytest.raises(AssertionError):
        assert_never_falls(np.array([before, model.elbo(model.posterior(statistics), events)]))


def test_it_ends_where_the_statistics_and_the_posterior_agree() -> None:
    components_, prior, events = CASES["overlapping"]
    model = build("gaussian_mixture", fields=FIELDS, components=components_, prior=prior)
    start = base.prior(model)
    statistics = ascended(model, start, events, iterations=3000, tolerance=1e-10).statistics
    again = model.expected(model.posterior(statistics), events)
    np.testing.assert_allclose(again, statistics, rtol=1e-8, atol=1e-8 * np.abs(statistics).max())
    np.testing.assert_array_equal(
        ascended(model, start, events, iterations=1).statistics, model.expected(start.posterior, events)
    )


def test_a_base_is_the_prior_of_what_follows() -> None:
    """With a base, the bound of the new events under it, E log p(events, z | parameters) - KL(q || base), rises."""
    model = build("gaussian_mixture", fields=FIELDS, components=3)
    family, events = FAMILIES["dirichlet-normal-inverse-wishart"], blob(60) + 0.3
    held = ascended(model, base.prior(model), blob(150)).statistics
    at = base.Base(1, 150, held, model.posterior(held))
    prior = family.from_natural(model.posterior(model.empty()).natural)
    old = family.from_natural(at.posterior.natural)
    found = []
    for iterations in range(1, 25):
        statistics = ascended(model, at, events, iterations=iterations, tolerance=0.0).statistics
        q = model.posterior(model.merge(held, statistics))
        new = family.from_natural(q.natural)
        found.append(model.elbo(q, events) + family.kl(new, prior) - family.kl(new, old))
    assert_never_falls(np.array(found))
    assert found[-1] > found[0]


def test_far_from_zero_it_goes_on_as_long() -> None:
    """Means of 1e7 must not make counts that still change look still."""
    found = []
    for centre in (0.0, 1e7):
        model = build("gaussian_mixture", fields=FIELDS, components=3, prior={"mean": centre})
        statistics = ascended(model, base.prior(model), blob(120, centre), iterations=300).statistics
        found.append(model.elbo(model.posterior(statistics), blob(120, centre)))
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    assert found[0] > bounds(3, {}, blob(120), steps=2)[-1] + 1
