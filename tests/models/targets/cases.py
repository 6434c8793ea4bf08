"""Targets with rows drawn for them: those of every example of a model that has a target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from streaminfer.models.targets import TARGETS, target_of
from streaminfer.models.targets.density import Density
from tests.models.examples import EXAMPLES, Example, model_of
from tests.models.latent_examples import LATENT_EXAMPLES

ALL = [example for example in (*EXAMPLES, *LATENT_EXAMPLES) if example.kind in TARGETS]
every_target = pytest.mark.parametrize("example", ALL, ids=[example.name for example in ALL])


def having(*members: str) -> Any:
    """The examples whose targets have all of these members."""
    found = [example for example in ALL if all(hasattr(target_of(model_of(example)), name) for name in members)]
    return pytest.mark.parametrize("example", found, ids=[example.name for example in found])


class Case(NamedTuple):
    """A target, rows of n events, and k places theta that are not far from where the posterior is."""

    target: Any
    rows: np.ndarray
    theta: np.ndarray


def case(example: Example, n: int = 40, k: int = 3, seed: int = 1) -> Case:
    rng = np.random.default_rng(seed)
    target = target_of(model_of(example))
    rows = target.rows(example.events(rng, n))
    theta = target.guess(rows) + 0.3 * rng.standard_normal((k, target.dimension))
    return Case(target, rows, theta)


def density(example: Example, n: int = 40, share: float = 1.0, seed: int = 1) -> Density:
    made = case(example, n, seed=seed)
    return Density(made.target, made.rows, share)
