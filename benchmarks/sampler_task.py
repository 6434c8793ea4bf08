"""Steps of samplers on a logistic regression: the work, and what a contender tells of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from streaminfer.models.model import Matrix
from streaminfer.sampling.pooled import effective

KEPT = 50_000
"""Positions of a chain that are kept, at least, if it has as many steps."""


@dataclass(frozen=True)
class Steps:
    """So many steps of a method on N events with d weights, minibatches of B; the seed of the data is fixed."""

    method: str
    steps: int
    control_variates: bool = True
    n: int = 100_000
    d: int = 50
    minibatch: int = 256
    bias: float = 0.05

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def events(self) -> Matrix:
        """Features and a label, (N, d); the first weight is that of the intercept."""
        rng = np.random.default_rng(3)
        features = rng.standard_normal((self.n, self.d - 1))
        weights = rng.standard_normal(self.d) / np.sqrt(self.d)
        chance = 1 / (1 + np.exp(-(weights[0] + features @ weights[1:])))
        return np.column_stack([features, rng.random(self.n) < chance]).astype(np.float64)

    @property
    def stride(self) -> int:
        """Every so many steps one is kept to count effective draws: a power of 2, so that it divides a block."""
        return min(64, 1 << (max(1, self.steps // KEPT).bit_length() - 1))

    @property
    def model(self) -> dict[str, Any]:
        return {"kind": "logistic_regression", "features": [f"x{i}" for i in range(self.d - 1)], "target": "y"}


@dataclass(frozen=True)
class Taken:
    """Steps and effective draws a second, and the variance in units of that of the Laplace approximation.

    The last two are means over weights. Whitened weights are all alike, so the mean over 50 of them has little noise.
    That of the worst would be too low, and the more so the fewer effective draws a chain has.
    """

    rate: float
    variance: float
    effective: float
    read: float = 0.0
    """Events that a step reads."""


def received() -> Steps:
    """The task in this process's first argument."""
    given: Mapping[str, Any] = json.loads(sys.argv[1])
    return Steps(**given)


def tell(found: Taken) -> None:
    print(json.dumps(asdict(found)), flush=True)


def taken(path: Matrix, steps: int, seconds: float, read: float = 0.0) -> Taken:
    """Of whitened positions (n, d), evenly spread over so many steps."""
    draws = float(effective.by_coordinate([path]).mean())
    return Taken(steps / seconds, float(path.var(axis=0).mean()), draws / seconds, read)
