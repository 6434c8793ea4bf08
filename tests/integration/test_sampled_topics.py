"""Topics by sgrld on every bus: the draws of `fit`, though a draw and a state are larger than a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import connect, fit, load_spec
from streaminfer.runtime.sampling import scratch
from tests.integration.existing import Running

WORDS, TOPICS = 3000, 50
"""1.2 MB."""


def documents(n: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    return [{"words": [f"w{w:04d}" for w in rng.integers(i % 2, WORDS, 20)]} for i in range(n)]


def test_the_draws_are_those_of_fit(tmp_path: Path, bus_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path / "scratch"))
    (tmp_path / "words.txt").write_text("".join(f"w{w:04d}\n" for w in range(WORDS)))
    model = {"kind": "lda", "field": "words", "topics": TOPICS, "vocabulary": "words.txt"}
    inference = {"method": "sgrld", "chains": 2, "draws": 3, "thin": 2, "warmup": 4, "minibatch": 16}
    text = {"name": "pages", "data": {"partitions": 1}, "model": model, "inference": inference}
    (tmp_path / "spec.yaml").write_text(json.dumps(text))
    spec, rows = load_spec(tmp_path / "spec.yaml"), documents(60)
    with connect(bus_url) as connection:
        connection.produce(spec, rows)
        running = Running(spec, connection.bus)
        try:
            assert running.until_idle().n_events == 60
        finally:
            running.close()
        seen = connection.snapshot(spec)
    assert seen is not None
    expected = fit(spec, rows)
    assert np.array_equal(seen.mean["topics"], expected.mean["topics"])
    there, here = (found.to_inference_data()["posterior"]["topics"].to_numpy() for found in (seen, expected))
    assert np.array_equal(there, here)
    assert seen.vocabulary == expected.vocabulary
    assert len(seen.vocabulary) == WORDS
