"""What is measured of a posterior, on which draws, and what a contender tells of it."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from streaminfer.models.model import Matrix


@dataclass(frozen=True)
class Work:
    """A measure of n draws of d numbers; score regression has so many `events` too."""

    measure: str
    n: int
    d: int
    events: int = 0

    def draws(self) -> Matrix:
        """Of a posterior N(0, I), a little off."""
        return 0.1 + np.random.default_rng(5).standard_normal((self.n, self.d))

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Told:
    """Seconds, megabytes above those before, and the value, which shows that the work was done."""

    seconds: float
    memory: float
    value: float


def received() -> Work:
    """The work in this process's first argument."""
    return Work(**json.loads(sys.argv[1]))


def timed(measure: Callable[[int], float], n: int) -> Told:
    """A measure of the first draws, of which it takes a number; a few draws first, for what is loaded once."""
    measure(20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    value = measure(n)
    seconds = time.perf_counter() - began
    return Told(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, value)


def tell(found: Told) -> None:
    print(json.dumps(asdict(found)), flush=True)
