"""Logistic regression: f = log sigmoid of the margin."""

from __future__ import annotations

import math
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.binary.local_steps import links
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts
from streaminfer.models.targets.kinds import gaussian_draw, polya_gamma
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.models.targets.target import Drawn, Quadratic

_NEAR: Final = 1e-4
"""Below this tanh(x / 2) / x is its series of two terms, to the last digit."""
_CERTAIN: Final = 700.0
"""Above this exp would leave float64."""


class LogisticRegression(Margins):
    """Gibbs: Pólya–Gamma variables (Polson, Scott & Windle 2013), one for each event."""

    link = staticmethod(links.logistic)
    link_code = 0
    derivative_bounds = (1.0, 0.25, 1 / (6 * math.sqrt(3)))
    blocks: ClassVar[tuple[str, ...]] = ("polya_gamma", "weights")

    def slope(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """sigmoid(-m), in one array."""
        found = np.minimum(margins, _CERTAIN)
        np.exp(found, out=found)
        found += 1
        return np.reciprocal(found, out=found)

    def lower_bound(self, at: Vector) -> Quadratic:
        """Jaakkola–Jordan: log sigmoid(m) >= log sigmoid(x) + (m - x) / 2 - l (m^2 - x^2), l = tanh(x / 2) / (4 x).

        l is 1/8 at x = 0.
        """
        half = 0.5 * at
        small = np.abs(at) < _NEAR
        steep = np.where(small, 0.125 * (1 - half * half / 3), np.tanh(half) / np.where(small, 1.0, 4 * at))
        log = links.logistic(at).log
        return Quadratic(-steep, np.full(len(at), 0.5), log - half + steep * at * at)

    def summary(self, rows: Matrix) -> Vector:
        """The sum of rows / 2, which is the linear part of the weights' density."""
        return np.asarray(0.5 * np.sum(rows, axis=0), dtype=np.float64)

    def tempers(self, share: float) -> bool:  # noqa: ARG002 (a Gaussian stays one)
        return True

    def draw(
        self, block: str, at: Drawn, rows: Matrix, summary: Vector, share: float, rng: np.random.Generator
    ) -> Drawn:
        """omega | w ~ PG(1, margin); w | omega has precision P + X' diag(omega) X and linear part P mean + X'1/2."""
        if block == "polya_gamma":
            return at._replace(latent=polya_gamma.sample(rows @ at.theta, rng))
        precision, linear = gaussian_draw.tempered(self.prior, share)
        precision = precision + parts.weighted_gram(rows, at.latent)
        return at._replace(theta=gaussian_draw.sample(precision, linear + summary, rng))
