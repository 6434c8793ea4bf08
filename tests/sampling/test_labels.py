"""Components of mixtures in the order of a reference."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets import target_of
from streaminfer.sampling.pooled import labels
from tests.models.examples import build


def target(k: int = 3, d: int = 2, **prior: Any) -> Any:
    return target_of(build("gaussian_mixture", fields=[f"f{i}" for i in range(d)], components=k, prior=prior))


def reference(rng: np.random.Generator, k: int = 3, d: int = 2) -> dict[str, np.ndarray]:
    rows = rng.standard_normal((k, 4 * d, d))
    return {
        "weights": rng.dirichlet(np.ones(k)),
        "means": 5 * rng.standard_normal((k, d)),
        "covs": rows.swapaxes(1, 2) @ rows / (4 * d),
    }


def shuffled(rng: np.random.Generator, of: dict[str, np.ndarray], n: int, noise: float) -> tuple[Any, Any]:
    """Draws near `of`, and the same with their components in any order."""
    straight = {name: np.repeat(values[None], n, axis=0) for name, values in of.items()}
    straight["means"] = straight["means"] + noise * rng.standard_normal(straight["means"].shape)
    order = rng.permuted(np.tile(np.arange(len(of["weights"])), (n, 1)), axis=1)
    return straight, {name: values[np.arange(n)[:, None], order] for name, values in straight.items()}


@pytest.mark.parametrize("k", [2, 5])
def test_draws_get_the_order_of_the_reference(k: int) -> None:
    rng = np.random.default_rng(k)
    of = reference(rng, k)
    straight, mixed = shuffled(rng, of, 50, 0.01)
    found = labels.matched(target(k), mixed, of)
    assert list(found) == ["weights", "means", "covs"]
    for name, values in found.items():
        np.testing.assert_array_equal(values, straight[name])


def test_a_prior_that_tells_components_apart_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    of = reference(rng)
    _, mixed = shuffled(rng, of, 20, 0.01)
    found = labels.matched(target(concentration=[1, 1, 2]), mixed, of)
    for name, values in found.items():
        np.testing.assert_array_equal(values, mixed[name])
    other = target_of(build("poisson", field="k"))
    assert labels.matched(other, {"rate": np.ones(3)}, {"rate": 1.0})["rate"].shape == (3,)


def test_the_assignment_is_the_best_of_all_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where two components are nearest to the same place, and block by block."""
    monkeypatch.setattr(labels, "_NUMBERS", 100)
    rng = np.random.default_rng(2)
    of, means = reference(rng, 4, 3), 5 * rng.standard_normal((60, 4, 3))
    root = rng.standard_normal((3, 3))
    cov = root @ root.T + np.eye(3)
    found = labels.orders(means, of["means"], cov)

    def cost(draw: np.ndarray, order: Any) -> float:
        away = draw[list(order)] - of["means"]
        return float(np.einsum("ki,ij,kj->", away, np.linalg.inv(cov), away))

    for draw, order in zip(means, found, strict=True):
        assert sorted(order) == [0, 1, 2, 3]
        assert cost(draw, order) == pytest.approx(min(cost(draw, each) for each in permutations(range(4))), rel=1e-12)


def test_units_of_the_fields_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    of = reference(rng, 4)
    _, mixed = shuffled(rng, of, 200, 4.0)
    units = np.array([1e6, 1e-6])

    def scaled(parameters: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        means, covs = parameters["means"] * units + [1e8, 3], parameters["covs"] * units[:, None] * units
        return {"weights": parameters["weights"], "means": means, "covs": covs}

    near, far = labels.matched(target(4), mixed, of), labels.matched(target(4), scaled(mixed), scaled(of))
    np.testing.assert_array_equal(near["weights"], far["weights"])
    assert not np.array_equal(near["weights"], mixed["weights"])
