"""Sequential decisions: read batch after batch of values until their mean is surely on one side of a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.sampling.gradients.minibatches import Indices
from streaminfer.sampling.settings import Stopping
from streaminfer.sampling.subsets import rules
from streaminfer.sampling.subsets.rules import Seen
from streaminfer.sampling.subsets.shuffling import Shuffled

Values = Callable[[Indices], Vector]
"""The values of some of all events."""


class Found(NamedTuple):
    """How many values were read, their mean, and whether that is enough; if not, all values have to decide."""

    n_read: int
    mean: float
    enough: bool


def sizes(test: Stopping, first: int, n: int) -> Iterator[int]:
    """How many values are known after each batch, below n: the same number more, or `growth` times as many."""
    m = first
    while m < n:
        yield m
        m = m + first if test.growth == 1 else max(m + 1, math.ceil(test.growth * m))


def decide(
    values: Values,
    threshold: float,
    test: Stopping,
    first: int,
    order: Shuffled,
    n: int,
    rng: np.random.Generator,
    most: float | None = None,
) -> Found:
    """Whether the mean of n values is above a threshold, from batches of them; no value is larger than `most`.

    Never asks for the last batch: if that is needed, the one who asks computes the sum over all in its own way.
    """
    m, mean, squares = 0, 0.0, 0.0
    try:
        for k, size in enumerate(sizes(test, first, n), start=1):
            part = values(order.take(size - m, rng))
            m, mean, squares = joined(m, mean, squares, part)
            if not math.isfinite(squares):
                break
            deviation = math.sqrt(squares / (m - 1)) if m > 1 else 0.0
            if rules.is_enough(test.rule, test.error, Seen(m, n, mean, deviation, k), threshold, most):
                return Found(m, mean, enough=True)
        return Found(m, mean, enough=False)
    finally:
        order.undo()


def joined(m: int, mean: float, squares: float, part: Vector) -> tuple[int, float, float]:
    """Number, mean and squares around it of values with some more (Chan, Golub & LeVeque 1983)."""
    with np.errstate(all="ignore"):
        more, centre = len(part), float(part.mean())
        gap, total = centre - mean, m + more
        around = float(((part - centre) ** 2).sum())
    return total, mean + gap * more / total, squares + around + gap * gap * m * more / total
