"""sgrld: probabilities of categories, by their expanded means."""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.chains.gradient_methods import STEPS
from streaminfer.sampling.chains.kernel import Block
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.kernels import sgrld


class Sgrld:
    """Positions are weights (K,) above 0; the parameters are their proportions."""

    exactness: Final = "approximate"
    knows_density: Final = False

    def block(self, prepared: Prepared) -> int:  # noqa: ARG002 (the same for all)
        return STEPS

    def first(self, prepared: Prepared, rng: np.random.Generator) -> Vector:
        """A draw of the prior, away from 0."""
        return rng.standard_gamma(prepared.density.share * self._concentration(prepared)) + 1e-3

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> sgrld.State:  # noqa: ARG002 (nothing is random)
        return sgrld.init(position)

    def like(self, prepared: Prepared, n_events: int) -> sgrld.State:  # noqa: ARG002 (the same for all)
        return sgrld.init(np.zeros(len(self._concentration(prepared))))

    def learns_until(self, prepared: Prepared) -> int:  # noqa: ARG002 (there is nothing to learn)
        return 0

    def steps(
        self,
        prepared: Prepared,
        state: sgrld.State,
        rng: np.random.Generator,
        count: int,
        learning: bool,  # noqa: ARG002
    ) -> Block:
        categories = np.asarray(prepared.density.rows[:, 0])
        concentration = prepared.density.share * self._concentration(prepared)
        indices = prepared.minibatches.indices(rng, state.n_steps, count)
        counts = sgrld.scaled_counts(categories, indices, len(concentration))
        sizes = prepared.schedule.sizes(state.n_steps, count)
        transition: sgrld.Transition = "euler" if prepared.settings.transition == "euler" else "cir"
        after, positions, info = sgrld.steps(state, concentration, counts, rng, sizes, transition)
        spent = Counters(n_gradient=indices.size, n_undone=info.n_undone, n_read=indices.size)
        return Block(after, positions, sizes, np.empty(0), spent)

    def position(self, state: sgrld.State) -> Vector:
        return state.weights

    def undone(self, state: sgrld.State) -> int:
        return state.undone

    def values(self, prepared: Prepared, positions: Matrix) -> Matrix:  # noqa: ARG002 (they are the parameters)
        return positions

    def _concentration(self, prepared: Prepared) -> Vector:
        return np.asarray(prepared.density.target.concentration, dtype=np.float64)
