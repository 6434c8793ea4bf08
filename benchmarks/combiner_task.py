"""Draws of subposteriors to combine, and what a contender tells of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from streaminfer.models.model import Matrix


@dataclass(frozen=True)
class Work:
    """T draws of each of J standard normal subposteriors of d numbers, combined `by` a method into n (None: T)."""

    by: str
    j: int = 100
    t: int = 10_000
    d: int = 50
    n: int | None = 1000

    def draws(self) -> Iterator[Matrix]:
        rng = np.random.default_rng(3)
        return (rng.standard_normal((self.t, self.d)) for _ in range(self.j))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Told:
    """Seconds, and the most memory in units of the draws, which count as 1."""

    seconds: float
    memory: float


def received() -> Work:
    """The work in this process's first argument."""
    return Work(**json.loads(sys.argv[1]))


def tell(found: Told) -> None:
    print(json.dumps(asdict(found)), flush=True)
