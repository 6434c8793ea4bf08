"""What makes a posterior untrustworthy turns the verdict on the page: real services, a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.buses import bus_url, kafka_later
from tests.faults.programs import Programs, free_port, programs
from tests.http.browsing import BLANK, visit

__all__ = ["bus_url", "programs"]

pytestmark = pytest.mark.xdist_group("browser")
PATIENCE = 120_000
FEATURES = [f"x{i}" for i in range(4)]
SPEC = {
    "name": "wrong",
    "data": {"partitions": 1},
    "model": {"kind": "logistic_regression", "features": FEATURES, "target": "y", "local": "bound"},
    "inference": {"minibatch": 16},
    "drift": {"events_per_false_alarm": 1e4, "block_events": 64},
    "monitor": {"share": 1.0, "bdmc": {"every_seconds": 1e6}},
}


def rows(n: int, slope: float, seed: int) -> str:
    """Events whose features are correlated; a negative slope is the opposite of a positive one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, len(FEATURES)))
    ones = rng.random(n) < 1 / (1 + np.exp(-slope * x.sum(axis=1)))
    found = ({**dict(zip(FEATURES, row, strict=True)), "y": int(y)} for row, y in zip(x.tolist(), ones, strict=True))
    return "".join(json.dumps(each) + "\n" for each in found)


@kafka_later
def test_an_overconfident_posterior_and_then_drift_turn_the_verdict(
    chromium: Any, programs: Programs, bus_url: str, tmp_path: Path
) -> None:
    spec, first, later = tmp_path / "wrong.yaml", tmp_path / "first.ndjson", tmp_path / "later.ndjson"
    spec.write_text(json.dumps(SPEC))
    first.write_text(rows(4000, 1.0, 1))
    later.write_text(rows(1000, -1.0, 2))
    address = f"127.0.0.1:{free_port()}"
    up = programs.start("up", spec, "--data", first, "--bus", bus_url, "--http", address)
    with visit(chromium, BLANK) as seen:
        seen.page.set_default_timeout(PATIENCE)
        seen.open(f"http://{address}/", lambda: up.alive)
        seen.wait("#about", "4,000 events")
        seen.wait("#verdict .verdict", "do not trust")
        seen.wait("#verdict li", "Is it computed right? ✗ fail The 95% interval of")
        assert "The data drifted" not in seen.text("#verdict")
        programs.run("produce", spec, later, "--bus", bus_url)
        seen.wait("#about", "5,000 events")
        seen.wait("#verdict li", "The data drifted")
        seen.wait("#score", "drift at 2")
        assert seen.said == []
        assert seen.hosts == {address}
