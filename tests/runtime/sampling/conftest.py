"""Fixtures of the sampler's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaminfer.runtime.sampling import scratch


@pytest.fixture(autouse=True)
def scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for rows of segments that no other test has."""
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path / "scratch"))
    return tmp_path / "scratch"
