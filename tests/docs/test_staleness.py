"""The figures of docs/variational.md on staleness: what is told of the serial start holds."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.docs.pages import ROOT

MOST_LOST = 0.03
"""Nats for each held-out event that a stale base may cost, as of a serial run."""


def measured(model: str, staleness: int, ramp: bool) -> float:
    """Nats lost against a run without staleness."""
    loaded = importlib.util.spec_from_file_location("staleness", ROOT / "docs" / "staleness.py")
    assert loaded is not None
    assert loaded.loader is not None
    script: Any = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(script)
    run = script.EXPERIMENTS[model]
    return float(run(0, True) - run(staleness, ramp))


@pytest.mark.parametrize("model", ["mixture", "probit"])
def test_sixteen_stale_minibatches_cost_little_after_a_serial_start_and_much_without(model: str) -> None:
    assert abs(measured(model, 16, True)) < MOST_LOST
    assert measured(model, 16, False) > 3 * MOST_LOST


def test_sixteen_stale_minibatches_cost_lda_little_after_a_serial_start_and_more_without() -> None:
    assert abs(measured("LDA", 4, True)) < MOST_LOST
    assert abs(measured("LDA", 16, True)) < MOST_LOST
    assert measured("LDA", 16, False) > 1.5 * MOST_LOST
