"""Specs of samplers, the smallest of every model that can be sampled, and the one line of their error."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec, SpecError, parse_spec
from tests.spec.documents import SMALLEST

MODELS: dict[str, dict[str, Any]] = {
    **SMALLEST,
    "logistic_regression": {"kind": "logistic_regression", "features": ["a", "b"], "target": "y"},
    "probit_regression": {"kind": "probit_regression", "features": ["a", "b"], "target": "y"},
    "gaussian_mixture": {"kind": "gaussian_mixture", "fields": ["u"], "components": 2},
    "lda": {"kind": "lda", "field": "words"},
}


def document(kind: str, method: str, sections: dict[str, Any] | None = None, **inference: Any) -> dict[str, Any]:
    given = {"method": method, **inference}
    return {"name": "demo", "model": MODELS[kind], "inference": given, **(sections or {})}


def spec(kind: str, method: str, sections: dict[str, Any] | None = None, **inference: Any) -> Spec:
    return parse_spec(document(kind, method, sections, **inference))


def settings(kind: str, method: str, **inference: Any) -> Settings:
    found = spec(kind, method, **inference).sampling
    assert found is not None
    return found


def line(given: dict[str, Any]) -> str:
    """The one line of the error."""
    with pytest.raises(SpecError) as caught:
        parse_spec(given, "x.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix("x.yaml: ")
