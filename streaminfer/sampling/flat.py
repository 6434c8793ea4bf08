"""Draws as one matrix: parameters in the declared order of a target's `shapes`, each row by row (C order)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Labels, Matrix
from streaminfer.models.targets.target import Parameters

Shapes = Mapping[str, tuple[int, ...]]


def size(shapes: Shapes) -> int:
    """D, how many numbers a draw has."""
    return sum(math.prod(shape) for shape in shapes.values())


def places(shapes: Shapes) -> dict[str, slice]:
    """Where the numbers of each parameter are."""
    found, begin = {}, 0
    for name, shape in shapes.items():
        found[name] = slice(begin, begin + math.prod(shape))
        begin = found[name].stop
    return found


def names(shapes: Shapes, labels: Mapping[str, Labels]) -> Iterator[str]:
    """What each number of a draw is called, such as `weights[sqm]`."""
    return (name_at(name, index, labels.get(name, ())) for name, shape in shapes.items() for index in np.ndindex(shape))


def name_at(name: str, index: tuple[int, ...], labels: Labels) -> str:
    """What one number of a parameter is called."""
    if not index:
        return name
    axes: tuple[Any, ...] = labels if labels and isinstance(labels[0], tuple) else (labels,) * len(index)
    return f"{name}[{', '.join(axis[i] if axis else str(i) for axis, i in zip(axes, index, strict=True))}]"


def flatten(parameters: Mapping[str, NDArray[np.float64]], shapes: Shapes) -> Matrix:
    """Parameters (n, ...) by name as (n, D)."""
    columns = [np.asarray(parameters[name], dtype=np.float64) for name in shapes]
    return np.hstack([values.reshape(len(values), math.prod(values.shape[1:])) for values in columns])


def unflatten(flat: NDArray[np.float64], shapes: Shapes) -> Parameters:
    """Parameters (..., shape) by name of (..., D): views, where numpy can."""
    return {name: flat[..., where].reshape(*flat.shape[:-1], *shapes[name]) for name, where in places(shapes).items()}
