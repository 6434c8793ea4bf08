"""Probit regression: f = log Phi of the margin."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from streaminfer.families.special import log_ndtr, ndtri_exp
from streaminfer.models.binary.local_steps import links
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.kinds import gaussian_draw
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.models.targets.target import Drawn, Quadratic


class ProbitRegression(Margins):
    """Gibbs: a Gaussian variable for each event, positive for its sign (Albert & Chib 1993).

    f' grows without bound to the left, so there is no bound of the first derivative.
    """

    link = staticmethod(links.probit)
    link_code = 1
    derivative_bounds = (None, 1.0, 0.29572)
    blocks: ClassVar[tuple[str, ...]] = ("latent", "weights")

    def lower_bound(self, at: Vector) -> Quadratic:
        """f'' is between -1 and 0: log Phi(m) >= f(x) + f'(x) (m - x) - (m - x)^2 / 2."""
        log, slope, _ = links.probit(at)
        return Quadratic(np.full(len(at), -0.5), slope + at, log - slope * at - 0.5 * at * at)

    def summary(self, rows: Matrix) -> Matrix:
        """X'X, (d, d)."""
        return rows.T @ rows

    def tempers(self, share: float) -> bool:  # noqa: ARG002 (a Gaussian stays one)
        return True

    def draw(
        self, block: str, at: Drawn, rows: Matrix, summary: Matrix, share: float, rng: np.random.Generator
    ) -> Drawn:
        """a | w ~ N(margin, 1) above 0; w | a has precision P + X'X and linear part P mean + X'a.

        margin - a is a normal number below the margin: Phi^-1(u Phi(margin)), by logs as Phi may be tiny.
        """
        if block == "latent":
            margins = rows @ at.theta
            uniform = np.log1p(-rng.random(len(margins)))
            return at._replace(latent=margins - ndtri_exp(uniform + log_ndtr(margins)))
        precision, linear = gaussian_draw.tempered(self.prior, share)
        return at._replace(theta=gaussian_draw.sample(precision + summary, linear + at.latent @ rows, rng))
