"""Cases of approximate posteriors: where minibatches and their order are fixed, so is every digit of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streaminfer import fit, parse_spec
from tests.faults.answers import Case

SERIAL: dict[str, Any] = {"linger_ms": 0, "max_staleness": 0}
"""Boundaries depend on positions alone, and each minibatch starts from the posterior of all before it."""


@dataclass(frozen=True)
class Identical(Case):
    """A case whose answer is that of the same pure code without a bus, to the last digit."""

    def check(self, document: dict[str, Any]) -> None:
        assert document["n_events"] == len(self.rows)
        assert document["n_lost"] == document["n_rejected"] == document["n_damped"] == 0
        np.testing.assert_array_equal(document["natural"], self.natural)


def identical(model: dict[str, Any], header: list[str], values: np.ndarray, **inference: Any) -> Identical:
    """A case of one partition, read in the order of the rows."""
    rows = [dict(zip(header, row, strict=True)) for row in values.tolist()]
    found = fit(parse_spec({"name": "kills", "model": model, "inference": inference}), rows)
    return Identical(model, header, [[repr(v) for v in row] for row in values.tolist()], found.posterior.natural, {})


def mixture(n: int, **inference: Any) -> Identical:
    rng = np.random.default_rng(3)
    centres = np.array([[0.0, 0.0], [6.0, 1.0], [-3.0, 5.0]])[rng.integers(0, 3, n)]
    model = {"kind": "gaussian_mixture", "fields": ["u", "v"], "components": 4}
    return identical(model, ["u", "v"], centres + rng.normal(size=(n, 2)), **inference)


def binary(kind: str) -> Callable[..., Identical]:
    def made(n: int, **inference: Any) -> Identical:
        rng = np.random.default_rng(4)
        x = rng.normal(size=(n, 2))
        y = rng.random(n) < 1 / (1 + np.exp(-(0.5 + x @ [1.5, -1.0])))
        model = {"kind": kind, "features": ["a", "b"], "target": "y"}
        return identical(model, ["a", "b", "y"], np.column_stack([x, y]), **inference)

    return made


CASES: dict[str, Callable[..., Identical]] = {
    "gaussian_mixture": mixture,
    "logistic_regression": binary("logistic_regression"),
    "probit_regression": binary("probit_regression"),
}
