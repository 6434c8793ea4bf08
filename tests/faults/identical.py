"""Cases of approximate posteriors: if minibatches and their order are fixed, so is every digit of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.faults.answers import Case

SERIAL: dict[str, Any] = {"linger_ms": 0, "max_staleness": 0}
"""Boundaries depend on positions alone, and each minibatch starts from the posterior of all before it."""


@dataclass(frozen=True)
class Approximate(Case):
    """A case without an exact answer: what can be checked of one posterior is that it has every row."""

    @property
    def named(self) -> list[dict[str, float]]:
        """The rows of a model of numbers as `fit` takes them."""
        return [dict(zip(self.header, map(float, row), strict=True)) for row in self.rows]

    def check(self, document: dict[str, Any]) -> None:
        assert document["n_events"] == len(self.rows)
        assert document["n_lost"] == document["n_rejected"] == document["n_damped"] == 0


def approximate(model: dict[str, Any], header: list[str], values: np.ndarray) -> Approximate:
    return Approximate(model, header, [[repr(v) for v in row] for row in values.tolist()], np.empty(0), {})


def mixture(n: int, seed: int = 3) -> Approximate:
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [6.0, 1.0], [-3.0, 5.0]])[rng.integers(0, 3, n)]
    model = {"kind": "gaussian_mixture", "fields": ["u", "v"], "components": 4}
    return approximate(model, ["u", "v"], centres + rng.normal(size=(n, 2)))


def binary(kind: str) -> Callable[..., Approximate]:
    def made(n: int, seed: int = 4) -> Approximate:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, 2))
        y = rng.random(n) < 1 / (1 + np.exp(-(0.5 + x @ [1.5, -1.0])))
        model = {"kind": kind, "features": ["a", "b"], "target": "y"}
        return approximate(model, ["a", "b", "y"], np.column_stack([x, y]))

    return made


def lda(n: int) -> Approximate:
    """Short documents of three subjects, and a new word now and then to the end."""
    rng = np.random.default_rng(5)
    subjects = rng.integers(0, 3, n)
    places = 10 * subjects[:, None] + rng.integers(0, 10, (n, 8))
    rows = [[" ".join(f"w{place}" for place in row)] for row in places.tolist()]
    for i in range(0, n, n // 20):
        rows[i][0] += f" rare{i}"
    model = {"kind": "lda", "field": "words", "topics": 4}
    return Approximate(model, ["words"], rows, np.empty(0), {})


CASES: dict[str, Callable[..., Approximate]] = {
    "gaussian_mixture": mixture,
    "logistic_regression": binary("logistic_regression"),
    "probit_regression": binary("probit_regression"),
    "lda": lda,
}
