"""What combiners take and give: the draws of each subposterior, and those of the posterior.

A subposterior j of J is prior^(1/J) times the likelihood of some of the data, on the unconstrained scale, so that the
posterior is their product. No combiner adds the prior again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector

Densities = Callable[[Matrix], Vector]
"""The log density of the posterior (n,), up to a constant, at parameters (n, d)."""
Gradients = Callable[[Matrix], Matrix]
"""The gradient (n, d) of that log density."""
Weights = Literal["full", "diagonal", "equal"]
Choice = Literal["pairs", "gibbs"]
WEIGHTS: Final = ("full", "diagonal", "equal")
CHOICES: Final = ("pairs", "gibbs")


class Refused(ValueError):
    """Draws that cannot be combined, and why. `part` is the index of the one at fault, None if it is not one alone."""

    def __init__(self, reason: str, part: int | None = None) -> None:
        super().__init__(reason if part is None else f"subposterior {part}: {reason}")
        self.reason, self.part = reason, part


class Gaussian(NamedTuple):
    """A mean (d,) and a covariance (d, d)."""

    mean: Vector
    cov: Matrix


class Moments(NamedTuple):
    """Mean (d,) and covariance (d, d) of `n` draws that are worth `effective` independent ones."""

    mean: Vector
    cov: Matrix
    n: int
    effective: float


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Draws (T, d) of one subposterior, their weights (T,) unless all count the same, and how many they are worth."""

    values: Matrix
    weights: Vector | None
    effective: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]


class Refine(Protocol):
    """Moves copies xi (n, d) of subposterior j by a step that leaves N(xi | theta, diag(variance)) f_j(xi) as it is.

    Rows are independent. A function that draws from it exactly need not look at `xi`.
    """

    def __call__(
        self, j: int, theta: Matrix, xi: Matrix, variance: Vector, rng: np.random.Generator, /
    ) -> NDArray[np.float64]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """What a combiner may be told. Each reads what it has a use for.

    `n` draws are made, None: as many as the shortest part has. `is_corrected` multiplies inverse covariances by
    (T - d - 2) / (T - 1). `bandwidth` is in units of a part's spread; None: a rule by the number of draws. A product of
    kernels has at most `components` of each part, and is drawn from by `choice`; `sweeps` are those of `gibbs`.
    `missing` are the prior shares that stand for subposteriors without draws. `variational` takes `steps` of
    `minibatch` draws with `gradient`. `weierstrass` makes `rounds`, each of `every` steps of `refine`; None: it refines
    from the draws.
    """

    n: int | None = None
    weights: Weights = "full"
    is_corrected: bool = True
    bandwidth: float | None = None
    choice: Choice = "pairs"
    components: int = 2048
    sweeps: int = 50
    missing: Sequence[Gaussian] = ()
    gradient: Gradients | None = None
    steps: int = 300
    minibatch: int = 128
    refine: Refine | None = None
    rounds: int = 20
    every: int = 1

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise Refused(f"weights are {', '.join(WEIGHTS)}, not {self.weights!r}")
        if self.choice not in CHOICES:
            raise Refused(f"choice is {' or '.join(CHOICES)}, not {self.choice!r}")
        if self.bandwidth is not None and not 0 < self.bandwidth < np.inf:
            raise Refused(f"a bandwidth is above 0, not {self.bandwidth!r}")
        for name in ("n", "components", "sweeps", "steps", "minibatch", "rounds", "every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise Refused(f"{name} is at least 1, not {value!r}")


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """Draws (n, d) of the combined posterior, and its mean (d,) and covariance (d, d).

    The moments are those of the method itself, not of its draws, if it knows them. `notes` are what it measured of its
    own work, by name; `parts` the moments of what it was given, and `missing` the prior shares that stood for others.
    """

    draws: Matrix
    mean: Vector
    cov: Matrix
    parts: tuple[Moments, ...]
    notes: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[Gaussian, ...] = ()


Combiner = Callable[[Sequence[Part], np.random.Generator, Options], Combined]
"""The one signature."""


def none_missing(options: Options, name: str) -> None:
    """Refuses prior shares in the place of draws: only averages and Gaussians can stand in for a density."""
    if options.missing:
        raise Refused(f"{name} needs draws of every subposterior, and {len(options.missing)} are missing")
