"""Answers from rows at hand, a part at a time.

Vectors are taken CHUNK by CHUNK, and rows block by block in their order. Where the bounds are depends on sizes alone,
so an answer has the same bits whoever computes it, whenever.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining import refining
from streaminfer.combining.questions import GRADIENT, LOG_LIKELIHOOD, REFINE, Answer, Question, shape_of
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts
from streaminfer.sampling.randomness import Key

CHUNK: Final = 256
"""Parameter vectors that are computed at once: rows are read once for so many."""
LARGEST: Final = 1e100
"""What float64 cannot hold becomes this: a log likelihood of minus it is no chance at all, and its sums are finite."""

T = TypeVar("T")
Slices = Generator[None, None, T]
"""Work in parts of some milliseconds, with its result at the end."""


class CannotAnswer(ValueError):
    """The model has no such thing, or nothing is asked of this subposterior; says which."""


def answer(
    target: Any,
    rows: Matrix,
    question: Question,
    subposterior: int,
    subposteriors: int,
    numbers: int = parts.NUMBERS,
) -> Answer:
    """The whole answer of subposterior j of J, whose segment has these rows. Raises CannotAnswer.

    `numbers` bounds memory: that of a block of rows, and of one number for each of its rows and vectors.
    """
    work = slices(target, rows, question, subposterior, subposteriors, numbers)
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: Answer = end.value
            return found


def slices(
    target: Any,
    rows: Matrix,
    question: Question,
    subposterior: int,
    subposteriors: int,
    numbers: int = parts.NUMBERS,
) -> Slices[Answer]:
    """The same in parts."""
    share, (n, d) = question.share_of(subposterior), question.theta.shape
    if share is None:
        raise CannotAnswer(f"subposterior {subposterior} is not among the shares of a question")
    check(target, question)
    on = OnRows(target, rows, numbers)
    theta = np.ascontiguousarray(question.theta, dtype=np.float64)
    values = np.empty(shape_of(question.kind, n, d))
    scale = refining.scales(question, subposteriors) if question.kind == REFINE else np.empty(0)
    for block, begin in enumerate(range(0, n, CHUNK)):
        chunk = theta[begin : begin + CHUNK]
        if question.kind == LOG_LIKELIHOOD:
            found: NDArray[np.float64] = yield from on.log_likelihood(chunk)
        elif question.kind == GRADIENT:
            found = yield from on.gradient(chunk)
        else:
            rng = Key(question.seed, "refine", subposterior, question.round).generator(block)
            near = refining.Near(chunk, question.bandwidth, scale)
            found = yield from refining.draws(on, 1 / subposteriors, near, rng)
        values[begin : begin + CHUNK] = found
    return Answer(question.id, question.kind, subposterior, share.segment, values, len(rows))


def check(target: Any, question: Question) -> None:
    """Raises CannotAnswer if a target has not what is asked, or another number of parameters."""
    needed = "gradient" if question.kind == GRADIENT else "log_likelihood"
    if not hasattr(target, needed):
        raise CannotAnswer(f"the model has no {needed}, which a question asks for")
    if question.theta.shape[1] != target.dimension:
        raise CannotAnswer(f"a question has {question.theta.shape[1]} parameters, the model {target.dimension}")


@dataclass(frozen=True, eq=False)
class OnRows:
    """Sums over all rows at k vectors theta (k, d)."""

    target: Any
    rows: Matrix
    numbers: int

    def log_likelihood(self, theta: Matrix) -> Slices[Vector]:
        """(k,), finite."""
        total = yield from self._sum(self._log_likelihoods, theta, np.zeros(len(theta)))
        return np.where(np.isfinite(total), np.clip(total, -LARGEST, LARGEST), -LARGEST)

    def gradient(self, theta: Matrix) -> Slices[Matrix]:
        """(k, d), finite."""
        total = yield from self._sum(self.target.gradient, theta, np.zeros(theta.shape))
        return np.clip(np.nan_to_num(total, nan=0.0, posinf=LARGEST, neginf=-LARGEST), -LARGEST, LARGEST)

    def _log_likelihoods(self, theta: Matrix, rows: Matrix) -> Vector:
        return np.asarray(self.target.log_likelihood(theta, rows).sum(axis=1), dtype=np.float64)

    def _sum(
        self, of: Callable[[Matrix, Matrix], NDArray[np.float64]], theta: Matrix, total: NDArray[np.float64]
    ) -> Slices[NDArray[np.float64]]:
        for part in parts.slices(self.rows, len(theta), self.numbers):
            with np.errstate(all="ignore"):
                total += of(theta, self.rows[part])
            yield
        return total
