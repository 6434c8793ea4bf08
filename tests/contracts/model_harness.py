"""What the contract tests of conjugate models share."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.model import DomainError, Model, Posterior
from tests.models.examples import EXAMPLES, Example

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])


def absorbed(model: Model, events: np.ndarray) -> Posterior:
    return model.posterior(model.statistics(events))


def assert_same(a: Posterior, b: Posterior, tolerance: float = 1e-10) -> None:
    """Every derived moment, and the evidence."""
    for name, ours in a.moments().items():
        for value, other in zip(ours, b.moments()[name], strict=True):
            if value is not None:
                scale = np.abs(other).max()
                np.testing.assert_allclose(value, other, rtol=tolerance, atol=tolerance * scale)
    assert a.log_evidence() == pytest.approx(b.log_evidence(), rel=tolerance, abs=tolerance)


def extremes(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """An event (1, fields) of the largest values, and one of the smallest."""
    largest = {"number": 1e100, "positive": 1e100, "count": 2.0**53, "binary": 1.0, "category": 0.0}
    smallest = {"number": -1e100, "positive": 1e-300, "count": 0.0, "binary": 0.0, "category": 1.0}
    events = ([[values[field.kind] for field in model.fields]] for values in (largest, smallest))
    large, small = map(np.array, events)
    return large, small


def some_rows(model: Model, example: Example, seed: int, k: int = 40) -> np.ndarray:
    """Statistics of sets of 0, 1, 2 and more events."""
    rng = np.random.default_rng(seed)
    sizes = [0, 0, 1, 1, 2, 3, *rng.integers(0, 30, k - 6)]
    return np.stack([model.statistics(example.events(rng, n)) if n else model.empty() for n in sizes])


def is_accepted(model: Model, statistics: np.ndarray) -> bool:
    try:
        model.posterior(statistics)
    except DomainError:
        return False
    return True
