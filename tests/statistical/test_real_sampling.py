"""Every sampler with its defaults on real data, not scaled and not cleaned, beside one long exact chain.

Means are within 0.05 posterior deviations and deviations within 5%, plus 5.5 standard errors of both sides by 200
batches. The exact chains are of mala, which the same check compares with gibbs on the pages.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from streaminfer.runtime.api import sampled_fit
from streaminfer.spec import parse_spec
from tests.statistical.tables import table

FILES = {"Phishing": ("phishing.csv", 1_250), "MNIST": ("sevens_and_nines.csv.gz", 12_214)}
EXACT = {"Phishing": {"draws": 10_000, "warmup": 1_000}, "MNIST": {"chains": 2, "draws": 15_000, "warmup": 1_000}}
"""Of the exact chains."""
CELLS = [("Phishing", method) for method in ("mh", "gibbs", "sgld", "sghmc", "sgnht")]
BATCHES = 200


@cache
def chains(name: str, method: str, **inference: int) -> np.ndarray:
    """Draws (chains, n, d) of all weights."""
    file, n = FILES[name]
    names, rows = table(file)
    model = {"kind": "logistic_regression", "features": names[:-1], "target": names[-1]}
    spec = parse_spec({"name": "real", "model": model, "inference": {"method": method, **inference}})
    assert spec.sampling is not None
    events = [dict(zip(names, row, strict=True)) for row in rows[:n].tolist()]
    return np.array([chain.draws for chain in sampled_fit.gathered(spec, spec.sampling, events).chains(0, 0)])


def averaged(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (d,) and their standard errors, by batches."""
    each = draws.reshape(BATCHES, -1, draws.shape[-1]).mean(axis=1)
    return each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(BATCHES)


def compared(name: str, method: str, **inference: Any) -> dict[str, np.ndarray]:
    """Of each weight: by how many deviations its mean is off, and the ratio of deviations; with their errors."""
    exact = chains(name, "mala", **EXACT[name])
    found = chains(name, method, **inference)
    mean, sd = exact.mean(axis=(0, 1)), exact.std(axis=(0, 1))
    (shift, error), (_, true_error) = (averaged((each - mean) / sd) for each in (found, exact))
    (square, wide), (_, true_wide) = (averaged(((each - mean) / sd) ** 2) for each in (found, exact))
    return {
        "shift": np.abs(shift),
        "shift error": np.hypot(error, true_error),
        "ratio": np.sqrt(square - shift**2),
        "ratio error": 0.5 * np.hypot(wide, true_wide),
    }


@pytest.mark.long
@pytest.mark.parametrize(("name", "method"), CELLS)
def test_defaults_on_real_data(name: str, method: str) -> None:
    found = compared(name, method)
    assert (found["shift"] < 0.05 + 5.5 * found["shift error"]).all()
    assert (np.abs(found["ratio"] - 1) < 0.05 + 5.5 * found["ratio error"]).all()
    assert found["shift error"].max() < 0.1


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("method", ["sgnht", "sgld"])
def test_images_of_raw_pixels(method: str) -> None:
    """Weights of 49 pixels of very different use: the noise of gradients is large, and steps are short."""
    found = compared("MNIST", method, chains=2)
    assert (found["shift"] < 0.05 + 5.5 * found["shift error"]).all()
    assert np.median(found["shift"]) < 0.15
    assert (np.abs(found["ratio"] - 1) < 0.05 + 5.5 * found["ratio error"]).all()
    assert np.median(found["shift error"]) < 0.1
