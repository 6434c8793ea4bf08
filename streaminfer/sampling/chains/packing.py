"""The state of any kernel as one vector of float64, and back: named tuples of numbers, vectors and matrices.

Which events are bright is a vector, too: of bits.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.sampling.kernels.brightness import Brightness

T = TypeVar("T")


def flatten(state: Any) -> Vector:
    """All numbers of a state, in the order of its fields."""
    if isinstance(state, tuple):
        return np.concatenate([np.empty(0), *(flatten(each) for each in state)])
    if isinstance(state, Brightness):
        return state.packed()
    return np.ravel(np.asarray(state, dtype=np.float64))


def unflatten(like: T, vector: Vector) -> T:
    """A state with the fields and shapes of another one; raises ValueError if it has another number of numbers."""
    found, rest = _taken(like, vector)
    if len(rest):
        raise ValueError(f"a state of {len(vector)} numbers is not one of {len(vector) - len(rest)}")
    made: T = found
    return made


def _taken(like: Any, vector: Vector) -> tuple[Any, Vector]:
    if isinstance(like, tuple):
        fields = []
        for each in like:
            found, vector = _taken(each, vector)
            fields.append(found)
        return type(like)(*fields), vector
    bright = isinstance(like, Brightness)
    shape = (like.n_numbers,) if bright else np.shape(like)
    size = int(np.prod(shape, dtype=np.int64))
    if len(vector) < size:
        raise ValueError(f"a state that ends {size - len(vector)} numbers too early")
    numbers, rest = vector[:size], vector[size:]
    if bright:
        return like.unpacked(numbers), rest
    if shape:
        return numbers.reshape(shape).copy(), rest
    return type(like)(numbers[0]), rest
