"""Square roots of scatters, and least squares with one row that is much larger than the others."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from streaminfer.models.conjugate import centred, roots
from streaminfer.models.model import DomainError


@pytest.mark.parametrize("n", [0, 1, 2, 3, 50])
@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (1e80, 1e-80, 1.0), (1e-160, 1.0, 1e-170)])
def test_a_root_squares_to_the_scatter(n: int, units: tuple[float, ...]) -> None:
    rows = np.random.default_rng(1).normal(size=(n, 3)) * units
    scatter = rows.T @ rows
    root = roots.root(scatter)
    sizes = np.sqrt(scatter.diagonal())
    scale = np.outer(sizes, sizes)
    np.testing.assert_array_less(np.abs(root.T @ root - scatter), 1e-14 * scale + 1e-170)


@pytest.mark.parametrize(
    "scatter",
    [
        [[1.0, 2.0], [2.0, 1.0]],
        [[-1.0, 0.0], [0.0, 1.0]],
        [[0.0, 1.0], [1.0, 1.0]],
        [[1.0, 0.5], [-0.5, 1.0]],
        [[1e-200, 1e200], [1e200, 1e-200]],
    ],
)
def test_what_is_no_scatter(scatter: list[list[float]]) -> None:
    with pytest.raises(DomainError):
        roots.root(np.array(scatter))


def test_absorb_adds_an_outer_product() -> None:
    rng = np.random.default_rng(2)
    rows, row = rng.normal(size=(6, 4)), rng.normal(size=4)
    upper = roots.absorb(roots.triangle(rows), row)
    np.testing.assert_allclose(upper.T @ upper, rows.T @ rows + np.outer(row, row), atol=1e-13)
    np.testing.assert_array_equal(upper, np.triu(upper))
    assert (upper.diagonal() > 0).all()


@pytest.mark.parametrize("size", [0.0, 1.0, 1e7, 1e12])
@pytest.mark.parametrize("shape", [(1.0, 1.0, 1.0), (1e-7, 1.0, -1.0), (0.0, 0.0, 1.0)])
def test_fit_keeps_the_digits_of_the_small_rows(size: float, shape: tuple[float, ...]) -> None:
    rng = np.random.default_rng(3)
    rows, large = rng.normal(size=(8, 4)), size * np.append(shape, 0.7)
    fit = roots.fit(rows, large)
    with mp.workdps(60):
        design, target = mp.matrix([*rows[:, :3].tolist(), large[:3].tolist()]), mp.matrix([*rows[:, 3], large[3]])
        exact = mp.lu_solve(design.T * design, design.T * target)
        left = target - design * exact
    np.testing.assert_allclose(fit.coefficients, [float(v) for v in exact], rtol=1e-11)
    assert fit.residual == pytest.approx(float(left[8]), rel=1e-11)
    assert fit.root == pytest.approx(float(mp.norm(left)), rel=1e-11)


def test_merged_moments_do_not_drift() -> None:
    """5,000 merges one by one of values with mean/sd 1e7 keep the scatter to 1e-13."""
    events = np.random.default_rng(4).normal(size=(5000, 1)) + 1e7
    merged = centred.empty(1)
    for row in events:
        merged = centred.merge(merged, centred.statistics(row[None, :]), 1)
    with mp.workdps(50):
        values = [mp.mpf(v) for v in events[:, 0].tolist()]
        mean = mp.fsum(values) / len(values)
        scatter = mp.fsum((v - mean) ** 2 for v in values)
        rest = mean - mp.mpf(float(merged[1]))
    assert merged[0] == 5000
    assert merged[3] == pytest.approx(float(scatter), rel=1e-13)
    assert merged[2] == pytest.approx(float(rest), abs=1e-13)
