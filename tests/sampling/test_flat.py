"""Parameters by name and as one matrix."""

from __future__ import annotations

import numpy as np

from streaminfer.sampling import flat
from tests.models.examples import Example
from tests.models.targets.cases import case, every_target

SHAPES = {"b": (2,), "a": (), "c": (2, 3)}


def test_the_order_is_that_of_the_shapes_whatever_that_of_the_parameters_is() -> None:
    draws = {"a": np.array([7.0]), "c": np.arange(6.0).reshape(1, 2, 3), "b": np.array([[8.0, 9.0]])}
    matrix = flat.flatten(draws, SHAPES)
    np.testing.assert_array_equal(matrix, [[8, 9, 7, 0, 1, 2, 3, 4, 5]])
    assert flat.size(SHAPES) == 9
    assert list(flat.unflatten(matrix, SHAPES)) == ["b", "a", "c"]


def test_leading_axes_are_kept_and_no_draw_is_fine() -> None:
    found = flat.unflatten(np.zeros((3, 5, 9)), SHAPES)
    assert {name: values.shape for name, values in found.items()} == {"b": (3, 5, 2), "a": (3, 5), "c": (3, 5, 2, 3)}
    none = flat.unflatten(np.zeros((0, 9)), SHAPES)
    assert flat.flatten(none, SHAPES).shape == (0, 9)


@every_target
def test_parameters_of_every_target_there_and_back(example: Example) -> None:
    target, _, theta = case(example)
    parameters = target.constrain(theta)
    matrix = flat.flatten(parameters, target.shapes)
    assert matrix.shape == (len(theta), flat.size(target.shapes))
    for name, values in flat.unflatten(matrix, target.shapes).items():
        np.testing.assert_array_equal(values, parameters[name])
