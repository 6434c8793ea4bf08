"""Checks of sampled posteriors, of their combinations, and of mixtures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.runtime.monitoring.measuring.tasks.table import tasks_of
from tests.runtime.monitoring.measuring.measuring_rig import (
    LOGISTIC,
    checked,
    context_of,
    logistic_rows,
    posterior,
    sent,
    spec_of,
    values,
)

MALA = {"method": "mala", "chains": 2, "draws": 400, "warmup": 200, "thin": 3}


def test_chains_of_one_posterior(tmp_path: Path) -> None:
    spec, rows = spec_of(LOGISTIC, MALA), logistic_rows(300)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        snapshot = posterior(spec, bus, rows)
        context = context_of(spec, bus, snapshot)
        draws, coverage, stein = (checked(check, context) for check in ("draws", "coverage", "stein"))
        held = snapshot.payload.sampled
        assert held is not None
        apart = held.draws.copy()
        apart[: len(apart) // 2] += 5 * apart.std(axis=0)
        payload = replace(snapshot.payload, sampled=replace(held, draws=apart))
        disagreeing = checked("draws", context_of(spec, bus, replace(snapshot, payload=payload)))
    assert [task.check for task in tasks_of(spec)][2] == "draws"
    assert (draws.subject, draws.n_draws) == ("draws", 800)
    assert draws.status in {"good", "watch"}, draws.sentence
    assert coverage.status == stein.status == "good", (coverage.sentence, stein.sentence)
    assert values(draws, "log_density")["r_hat"] == pytest.approx(1, abs=0.05)
    assert values(draws)["chains"] == 2
    assert disagreeing.status == "fail", "a mutant: chains that are not where each other are"


def test_a_combination_of_subposteriors(tmp_path: Path) -> None:
    combined = {**MALA, "subposteriors": 2, "chains": 1, "combine": {"by": "average"}}
    spec, rows = spec_of(LOGISTIC, combined), logistic_rows(400)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        context = context_of(spec, bus, posterior(spec, bus, rows))
        found, coverage = checked("combined", context), checked("coverage", context)
    assert (found.subject, found.status) == ("combined", "good"), found.sentence
    assert values(found)["k_hat"] is not None
    assert coverage.status == "good", coverage.sentence


def clusters(n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(4)
    centres = np.array([[-6.0, 0.0], [0.0, 6.0], [6.0, 0.0]])
    places = centres[rng.integers(3, size=n)] + rng.standard_normal((n, 2))
    return [{"a": a, "b": b} for a, b in places.tolist()]


def test_starts_of_a_mixture(tmp_path: Path) -> None:
    model: dict[str, Any] = {"kind": "gaussian_mixture", "fields": ["a", "b"], "components": 3}
    spec, rows = spec_of(model, {"minibatch": 1000}), clusters(600)
    with open_bus(f"embedded:{tmp_path}") as bus:
        sent(spec, bus, rows)
        right = posterior(spec, bus, rows)
        good = checked("starts", context_of(spec, bus, right))
        merged = replace(right, payload=replace(right.payload, statistics=_two_in_one(right.payload.statistics)))
        bad = checked("starts", context_of(spec, bus, merged))
    assert good.status == "good", good.sentence
    assert bad.status == "watch"
    assert "Another start explains the events better" in bad.sentence


def _two_in_one(statistics: np.ndarray) -> np.ndarray:
    """All components alike: that of all events."""
    model = spec_of({"kind": "gaussian", "fields": ["a", "b"]}).model
    rows = statistics.reshape(3, -1)
    together = model.merge(model.merge(rows[0], rows[1]), rows[2])
    return np.tile(model.scale(together, 1 / 3), 3)
