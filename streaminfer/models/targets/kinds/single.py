"""What targets share whose posterior, tempered or not, can be drawn from as a whole: one block, no latent variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.target import Drawn


class Whole(ABC):
    """Gibbs with one block: every step is an independent draw from the posterior."""

    blocks: ClassVar[tuple[str, ...]] = ("parameters",)
    is_normalised: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    @abstractmethod
    def summary(self, rows: Matrix) -> Any:
        """The statistics of all rows."""

    @abstractmethod
    def sample_posterior(self, summary: Any, share: float, rng: np.random.Generator) -> Vector:
        """One draw of theta (d,) from prior^share times the likelihood of the rows of these statistics."""

    def tempers(self, share: float) -> bool:  # noqa: ARG002 (most families stay closed)
        return True

    def draw(self, block: str, at: Drawn, rows: Matrix, summary: Any, share: float, rng: np.random.Generator) -> Drawn:  # noqa: ARG002 (there is one block, and the statistics have all of the rows)
        return at._replace(theta=self.sample_posterior(summary, share, rng))
