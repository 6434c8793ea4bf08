"""Warnings of what a spec may say and its author may not want."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.spec import parse_spec, warnings_of
from tests.spec.documents import SMALLEST, document


def regression(kind: str, features: int, **inference: Any) -> Any:
    names = [f"x{i}" for i in range(features)]
    model = {"kind": kind, "features": names, "target": "y", "covariance": "diagonal"}
    return parse_spec({"name": "demo", "model": model, "inference": inference})


@pytest.mark.parametrize("kind", ["logistic_regression", "probit_regression"])
def test_a_diagonal_that_is_not_needed_is_a_warning(kind: str) -> None:
    (found,) = warnings_of(regression(kind, 30))
    assert found.startswith("model.covariance: diagonal ")
    assert "31 weights can afford full (992 statistics, not 62)" in found
    assert warnings_of(regression(kind, 199))
    assert warnings_of(regression(kind, 200)) == []


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_smallest_specs_have_no_warning(kind: str) -> None:
    assert warnings_of(parse_spec(document(kind))) == []


@pytest.mark.parametrize("kind", ["logistic_regression", "probit_regression"])
def test_a_diagonal_has_larger_minibatches_unless_somebody_says_so(kind: str) -> None:
    assert regression(kind, 3).inference.minibatch == 1024
    assert regression(kind, 3).document["inference"]["minibatch"] == 1024
    assert regression(kind, 3, minibatch=256).inference.minibatch == 256
    full = {"kind": kind, "features": ["a"], "target": "y"}
    assert parse_spec({"name": "demo", "model": full}).inference.minibatch == 256
