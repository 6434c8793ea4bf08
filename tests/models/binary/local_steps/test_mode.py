"""Newton's method against a search, in all the ways in which it factors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from streaminfer.models.binary.local_steps import links, mode
from tests.models.binary.local_steps.tilted import LINKS

FAST = {"logistic": links.logistic, "probit": links.probit}
every_link = pytest.mark.parametrize("name", ["logistic", "probit"])


def margins(n: int, d: int, size: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The start of margins, how they change with u, and how often events count."""
    rng = np.random.default_rng(n + d)
    return rng.normal(size=n), size * rng.normal(size=(n, d)) + 0.3, rng.uniform(0.2, 2.0, n)


@every_link
@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 8), (40, 5), (300, 20)])
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_the_mode_is_the_one_that_a_search_finds(name: str, n: int, d: int, size: float) -> None:
    start, B, times = margins(n, d, size)
    link = LINKS[name]

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        z = start + B @ u
        return 0.5 * u @ u - times @ link.log(z), u - (times * link.slope(z)) @ B

    searched = optimize.minimize(loss, np.zeros(d), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    found = mode.find(FAST[name], start, B, times)
    assert found.converged
    value, gradient = loss(found.u)
    assert value <= searched.fun + 1e-9 * abs(searched.fun)
    curved = np.sqrt(times * link.bend(found.margins))[:, None] * B
    hessian = np.eye(d) + curved.T @ curved
    assert gradient @ np.linalg.solve(hessian, gradient) <= 2 * mode.SETTLED
    np.testing.assert_allclose(found.u, searched.x, atol=2e-5 * (1 + np.abs(searched.x).max()))
    np.testing.assert_allclose(found.margins, start + B @ found.u)


@every_link
def test_all_ways_to_factor_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, d in ((4, 9), (60, 9)):
        start, B, times = margins(n, d)
        usual = mode.find(FAST[name], start, B, times)
        spread = mode.variances(B, times * usual.values.bend)
        curved = np.sqrt(times * usual.values.bend)[:, None] * B
        exact = np.einsum("nd,nd->n", B, np.linalg.solve(np.eye(d) + curved.T @ curved, B.T).T)
        np.testing.assert_allclose(spread, exact, rtol=1e-10)
        with monkeypatch.context() as patched:
            patched.setattr(mode, "_PLAIN", 0.0)
            np.testing.assert_allclose(mode.find(FAST[name], start, B, times).u, usual.u, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(mode.variances(B, times * usual.values.bend), spread, rtol=1e-9)


@every_link
def test_a_start_at_the_mode_stays_there(name: str) -> None:
    start, B, times = margins(50, 4)
    found = mode.find(FAST[name], start, B, times)
    again = mode.find(FAST[name], start, B, times, found.u)
    np.testing.assert_array_equal(again.u, found.u)
    assert again.converged


@every_link
def test_too_few_steps_are_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mode, "STEPS", 1)
    start, B, times = margins(50, 4, 5.0)
    assert not mode.find(FAST[name], start, B, times).converged


def test_full_steps_without_a_line_search_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: margins that start far off on the flat side of a logistic send Newton's method away."""
    start, B, times = np.full(20, -30.0), np.full((20, 1), 25.0), np.ones(20)
    B[10:] *= -1
    start[10:] = 12.0
    assert mode.find(links.logistic, start, B, times).converged
    monkeypatch.setattr(mode, "_HALVINGS", 1)
    assert not mode.find(links.logistic, start, B, times).converged
