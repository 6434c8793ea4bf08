"""The posterior that draws give: moments of all of them, and everything else by those that are retained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import DomainError, Matrix, Moments, Predictions, Vector
from streaminfer.models.targets.target import Parameters
from streaminfer.sampling import flat
from streaminfer.sampling.pooled import score
from streaminfer.sampling.pooled.pooling import Statistics


@dataclass(frozen=True, eq=False)
class DrawsPosterior:
    """A target, `Statistics` of draws as a vector, retained draws (m, D), and how many of them each chain has.

    Raises DomainError if they do not fit together.
    """

    family: ClassVar[str] = "draws"

    target: Any
    vector: Vector
    retained: Matrix
    by_chain: tuple[int, ...]
    evidence: float | None = None
    """The log evidence, where importance weights tell it."""

    def __post_init__(self) -> None:
        d = flat.size(self.target.shapes)
        if self.retained.ndim != 2 or self.retained.shape[1] != d:
            raise DomainError(f"retained draws have shape {self.retained.shape}, not (m, {d})")
        if sum(self.by_chain) != len(self.retained) or min(self.by_chain, default=0) < 0:
            raise DomainError(f"chains have {self.by_chain} draws, together not {len(self.retained)}")
        if not np.isfinite(self.retained).all():
            raise DomainError("a draw is not finite")
        Statistics.of(self.vector, d)

    @cached_property
    def statistics(self) -> Statistics:
        return Statistics.of(self.vector, flat.size(self.target.shapes))

    @cached_property
    def parameters(self) -> Parameters:
        """The retained draws by name, (m, ...); raises DomainError if there are none."""
        if not len(self.retained):
            raise DomainError("no draws are retained, so there is nothing to sample or to predict by")
        return flat.unflatten(self.retained, self.target.shapes)

    @cached_property
    def theta(self) -> Matrix:
        """The retained draws on the unconstrained scale, (m, d)."""
        return np.asarray(self.target.unconstrain(self.parameters), dtype=np.float64)

    @property
    def natural(self) -> Vector:
        """Draws have no natural parameters."""
        return np.zeros(0)

    def moments(self) -> dict[str, Moments]:
        """Covariances of vectors, unless a draw has so many numbers that only variances are known."""
        _, means, second = self.statistics
        shapes, found = self.target.shapes, {}
        sds = np.sqrt(self.statistics.variances)
        for name, where in flat.places(shapes).items():
            cov = second[where, where].copy() if len(shapes[name]) == 1 and second.ndim == 2 else None
            found[name] = Moments(means[where].reshape(shapes[name]), sds[where].reshape(shapes[name]), cov)
        return found

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        """n of the retained draws, each as likely as any other, with replacement."""
        parameters = self.parameters
        which = rng.integers(len(self.retained), size=n)
        return {name: values[which] for name, values in parameters.items()}

    def chains(self) -> Parameters:
        """The retained draws (chains, draws, ...) in their order, the newest of each chain.

        All chains must have equally many. The number is that with which most draws are left: a chain that is far
        behind the others is left out.
        """
        counts = np.array(self.by_chain, dtype=np.intp)
        lengths = np.unique(counts)[::-1]
        length = int(max(lengths, key=lambda each: int(each) * int((counts >= each).sum()), default=0))
        ends = np.cumsum(counts)[counts >= max(length, 1)]
        which = ends[:, None] - length + np.arange(length)
        return flat.unflatten(self.retained[which], self.target.shapes)

    def log_predictive(self, events: Matrix) -> Vector:
        """log of the mean of p(event | draw)."""
        return score.log_predictive(self.target, self.theta, self.target.rows(events))

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """What the model's own posterior predicts, by the retained draws; raises TypeError if the target cannot."""
        if not hasattr(self.target, "predictions"):
            raise TypeError("the model cannot predict by draws: it has no predictions(parameters, inputs, level)")
        found: Predictions = self.target.predictions(self.parameters, inputs, level)
        return found

    def log_evidence(self) -> float:
        """NaN where it is not known: draws alone do not tell it."""
        return math.nan if self.evidence is None else self.evidence
