"""Specs with a model of the user's own, and the one line of their error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streaminfer.spec import SpecError, parse_spec

WAITING = "queue_models.waiting:WaitingTime"


def document(kind: object = WAITING, **options: Any) -> dict[str, Any]:
    return {"name": "demo", "model": {"kind": kind, "field": "t", **options}}


def line(given: dict[str, Any]) -> str:
    """The one line of the error."""
    with pytest.raises(SpecError) as caught:
        parse_spec(given, "own.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def kind_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], str]:
    """Gives a class a name that a spec can have."""

    def named(made: type) -> str:
        monkeypatch.setattr("queue_models.Model", made, raising=False)
        return "queue_models:Model"

    return named
