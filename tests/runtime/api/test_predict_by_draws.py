"""Predictions by draws of classes of the user's own: those that have `predictions`, and what the others are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.runtime.api.prediction import CannotPredict
from streaminfer.spec import parse_spec
from tests.spec.own import document, kind_of
from tests.spec.own_targets import Curved

__all__ = ["kind_of"]

ROWS = [{"t": 0.5 + i % 3} for i in range(30)]


def fitted(made: type, kind_of: Callable[[type], str]) -> Any:
    inference = {"method": "mh", "chains": 1, "draws": 50, "warmup": 50}
    return fit(parse_spec({**document(kind_of(made)), "inference": inference}), ROWS)


def test_a_class_without_predictions_is_told_what_it_lacks(kind_of: Callable[[type], str]) -> None:
    found = fitted(type("Model", (Curved,), {"inputs": (), "outputs": ()}), kind_of)
    rule = (
        r"model.kind: queue_models:Model does not predict by draws: its class has no `predictions\(parameters, inputs,"
    )
    with pytest.raises(CannotPredict, match=rule):
        found.predict({})


def test_a_class_without_inputs_is_told_so_first(kind_of: Callable[[type], str]) -> None:
    with pytest.raises(CannotPredict, match="does not predict: its class has no `inputs`"):
        fitted(Curved, kind_of).predict({})


def test_a_class_with_predictions_predicts(kind_of: Callable[[type], str]) -> None:
    def predictions(_self: Any, parameters: Any, inputs: np.ndarray, level: float) -> dict[str, np.ndarray]:
        return {"mean": np.full(len(inputs), (1 / parameters["rate"]).mean())}

    found = fitted(type("Model", (Curved,), {"inputs": (), "outputs": (), "predictions": predictions}), kind_of)
    assert found.predict({})["mean"] == pytest.approx(1.5, rel=0.5)
