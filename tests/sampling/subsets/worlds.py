"""Small posteriors of margins for tests of decisions on subsets, and their moments by quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.models.targets import mode, remainders, target_of
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.subsets.proxy import Proxy, plain, proxy
from tests.models.examples import build

BATCHES = 200


def target(kind: str = "logistic_regression", d: int = 1) -> Any:
    features = [f"x{i}" for i in range(d)]
    return target_of(build(kind, features=features, target="y", intercept=False, prior={"mean": 0.3}))


def density(n: int, d: int = 1, kind: str = "logistic_regression", seed: int = 1, share: float = 1.0) -> Density:
    rng, made = np.random.default_rng(seed), target(kind, d)
    x = rng.standard_normal((n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-x @ np.linspace(1.0, -0.5, d)))
    return Density(made, np.ascontiguousarray(made.rows(np.column_stack([x, y]))), share)


def with_intercept(n: int) -> Density:
    """Two weights, one of which is the intercept."""
    rng = np.random.default_rng(1)
    made = target_of(build("logistic_regression", features=["x"], target="y", prior={"mean": 0.3}))
    x = rng.standard_normal((n, 1))
    y = rng.random(n) < 1 / (1 + np.exp(-(0.3 + x[:, 0])))
    return Density(made, np.ascontiguousarray(made.rows(np.column_stack([x, y]))))


def proxy_at(
    made: Density, anchor: np.ndarray, order: int, root: np.ndarray | None = None, bounded: bool = True
) -> Proxy:
    """With its expansion at any anchor (d,)."""
    found = plain(made) if order == 0 else remainders.expansion(made, anchor, order)
    return proxy(made, found, np.empty((0, 0)) if root is None else root, bounded)


def at_mode(made: Density, order: int, bounded: bool = True) -> tuple[Proxy, np.ndarray]:
    """In the coordinates of the mode, as chains have it, and the root."""
    found = mode.find(made)
    assert found.curvature is not None
    root = preconditioning.mode(found.curvature).root
    return proxy_at(made, found.theta, order, root, bounded), root


def moments(made: Density, powers: tuple[int, ...] = (1, 2)) -> np.ndarray:
    """E theta^p of a posterior of one number, by quadrature."""
    grid = np.linspace(-12, 12, 20_001)
    logs = made.log_density(grid[:, None])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return np.array([weights @ grid**p for p in powers])


def z_scores(path: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of the means of powers of a path (n, 1), by batch means."""
    each = np.column_stack([(path**p).reshape(BATCHES, -1).mean(axis=1) for p in range(1, len(expected) + 1)])
    found: np.ndarray = (each.mean(axis=0) - expected) / (each.std(axis=0, ddof=1) / np.sqrt(BATCHES))
    return found
