"""What a combiner asks of those who hold data, and what they reply. All of it is about unconstrained parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.units import Spans

LOG_LIKELIHOOD: Final = "log_likelihood"
GRADIENT: Final = "gradient"
REFINE: Final = "refine"
KINDS: Final = (LOG_LIKELIHOOD, GRADIENT, REFINE)
ID_DIGITS: Final = 32


class Asked(NamedTuple):
    """The share of the data that one subposterior has: the events of one of its segments."""

    subposterior: int
    segment: int
    spans: Spans


@dataclass(frozen=True, eq=False)
class Question:
    """n parameter vectors `theta` (n, d), n >= 1, and the shares of the data, by rising subposteriors.

    `log_likelihood` and `gradient` are of the likelihood alone: who asks adds the prior, once. `refine` asks for draws
    from prior^(1/J) times likelihood times N(theta_i, bandwidth^2), one for each i; only it has a `bandwidth` (d,),
    and random numbers, which are named by `seed` and `round`.
    """

    kind: str
    theta: Matrix
    shares: tuple[Asked, ...]
    bandwidth: Vector = field(default_factory=lambda: np.empty(0))
    seed: int = 0
    round: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)} (got {self.kind!r})")
        if self.theta.ndim != 2 or not len(self.theta):
            raise ValueError(f"theta must have one row or more for parameter vectors (got {self.theta.shape})")
        if self.bandwidth.shape != self.bandwidth_shape(self.kind, self.theta.shape[1]):
            raise ValueError(f"bandwidth must have a number for each parameter of refine (got {self.bandwidth.shape})")
        before = -1
        for share in self.shares:
            if share.subposterior <= before:
                raise ValueError("shares must be of different subposteriors, in rising order")
            before = share.subposterior

    @staticmethod
    def bandwidth_shape(kind: str, dimension: int) -> tuple[int]:
        return (dimension if kind == REFINE else 0,)

    @cached_property
    def id(self) -> str:
        """A hash of everything in it: a question that is repeated has the same one."""
        head = (self.kind, self.theta.shape, self.seed, self.round, [_plain(each) for each in self.shares])
        found = sha256(repr(head).encode())
        for numbers in (self.theta, self.bandwidth):
            found.update(np.ascontiguousarray(numbers, dtype="<f8").tobytes())
        return found.hexdigest()[:ID_DIGITS]

    def share_of(self, subposterior: int) -> Asked | None:
        """What is asked of a subposterior; None if nothing is."""
        return next((each for each in self.shares if each.subposterior == subposterior), None)


def _plain(share: Asked) -> tuple[object, ...]:
    """As numbers and tuples, whose text says all and nothing else."""
    return int(share.subposterior), int(share.segment), tuple(tuple(map(int, span)) for span in share.spans)


@dataclass(frozen=True, eq=False)
class Answer:
    """The reply of one share: (n,) log likelihoods, or (n, d) gradients or draws. `question` is the id of one."""

    question: str
    kind: str
    subposterior: int
    segment: int
    values: NDArray[np.float64]
    n_events: int

    def fits(self, question: Question) -> bool:
        """Whether it answers a question, for the segment that is asked about."""
        share = question.share_of(self.subposterior)
        return (
            (self.question, self.kind) == (question.id, question.kind)
            and share is not None
            and share.segment == self.segment
            and self.values.shape == shape_of(question.kind, *question.theta.shape)
        )


def shape_of(kind: str, n: int, dimension: int) -> tuple[int, ...]:
    """That of an answer's values."""
    return (n,) if kind == LOG_LIKELIHOOD else (n, dimension)
