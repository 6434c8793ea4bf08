"""Classes that samplers can use and variational methods cannot: t ~ Exponential(rate), log rate ~ N(mean, 1)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from streaminfer.models.events import Field
from streaminfer.models.options import Number, Option, Section, Text


class Densities:
    """Densities alone, by functions that JAX cannot follow."""

    kind: ClassVar[str] = "waiting"
    options: ClassVar[Section] = Section(
        [
            Option("field", Text(), "the field"),
            Option("prior", Section([Option("mean", Number(), "of the log rate", 0.0)]), "of the log rate", {}),
        ]
    )
    functions: Any = np
    dimension, columns = 1, 1
    labels: ClassVar[Mapping[str, Any]] = {}
    shapes: ClassVar[Mapping[str, tuple[int, ...]]] = {"rate": ()}

    def __init__(self, field: str, mean: float) -> None:
        self.fields, self.mean = (Field(field, "positive"),), mean

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Densities:
        return cls(options["field"], options["prior"]["mean"])

    def rows(self, events: np.ndarray) -> np.ndarray:
        return events

    def log_likelihood(self, theta: Any, rows: Any) -> Any:
        return theta - self.functions.exp(theta) * rows[:, 0]

    def log_prior(self, theta: Any) -> Any:
        return -0.5 * (theta[:, 0] - self.mean) ** 2 - 0.5 * np.log(2 * np.pi)

    def constrain(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {"rate": np.exp(theta[:, 0])}

    def unconstrain(self, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.log(parameters["rate"])[:, None]


class Traced(Densities):
    """By functions that JAX can follow."""

    functions: Any = importlib.import_module("jax.numpy")

    def sample_prior(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return self.mean + rng.standard_normal((n, 1))


class Sloped(Densities):
    """With gradients."""

    def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return len(rows) - np.exp(theta) * rows.sum()

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return self.mean - theta


class Curved(Sloped):
    """With second derivatives, and draws from its prior."""

    def curvature(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.diag(np.exp(theta) * rows.sum())

    def prior_curvature(self, theta: np.ndarray) -> np.ndarray:
        return np.eye(len(theta))

    def sample_prior(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return self.mean + rng.standard_normal((n, 1))
