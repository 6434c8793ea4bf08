"""Draws of subposteriors to combine, and what a contender tells of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from streaminfer.models.model import Matrix, Vector


@dataclass(frozen=True)
class Work:
    """T draws of each of J normal subposteriors of d numbers, combined `by` a method into n (None: T).

    Subposteriors differ in width, each by another variance in every coordinate, and in place as chance puts them.
    """

    by: str
    j: int = 100
    t: int = 10_000
    d: int = 50
    n: int | None = 1000

    def known(self) -> tuple[Matrix, Matrix]:
        """Means and variances of subposteriors, (J, d)."""
        rng = np.random.default_rng(3)
        variances = np.exp(0.5 * rng.standard_normal((self.j, self.d)))
        return np.sqrt(variances) * rng.standard_normal((self.j, self.d)), variances

    def posterior(self) -> tuple[Vector, Vector]:
        """Its mean and variances, (d,)."""
        means, variances = self.known()
        variance = 1 / (1 / variances).sum(axis=0)
        return variance * (means / variances).sum(axis=0), variance

    def draws(self) -> Iterator[Matrix]:
        rng = np.random.default_rng(4)
        for mean, variance in zip(*self.known(), strict=True):
            values = rng.standard_normal((self.t, self.d))
            values *= np.sqrt(variance)
            values += mean
            yield values

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Told:
    """Seconds, and the most memory in units of the draws, which count as 1; and how good the posterior is.

    `off` is the distance of means in posterior deviations, in the root mean square over numbers; `width` the mean of
    deviations over the right ones. Both are not a number if the combiner refused the draws.
    """

    seconds: float
    memory: float
    off: float = float("nan")
    width: float = float("nan")


def received() -> Work:
    """The work in this process's first argument."""
    return Work(**json.loads(sys.argv[1]))


def tell(found: Told) -> None:
    print(json.dumps(asdict(found)), flush=True)
