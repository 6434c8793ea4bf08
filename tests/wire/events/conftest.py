"""Schemas of these tests are in folders of their own, away from specs."""

from __future__ import annotations

import pytest

from streaminfer.spec import files


@pytest.fixture(autouse=True)
def _schemas_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.VARIABLE, files.ANYWHERE)
