"""mh, mala and gibbs: each step reads all data, and the draws are of the target itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling import flat
from streaminfer.sampling.chains import prepared as preparing
from streaminfer.sampling.chains.kernel import Block
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.kernels import gibbs, mala, mh


class Stationary:
    """What methods have in common whose target is the posterior."""

    exactness: str = "sampled"
    knows_density: bool = True

    def block(self, prepared: Prepared) -> int:  # noqa: ARG002 (each step reads all data)
        return 1

    def first(self, prepared: Prepared, rng: np.random.Generator) -> Vector:
        return preparing.start(prepared, rng)

    def undone(self, state: Any) -> int:  # noqa: ARG002 (such a proposal is refused)
        return 0

    def position(self, state: Any) -> Vector:
        return np.asarray(state.position, dtype=np.float64)

    def values(self, prepared: Prepared, positions: Matrix) -> Matrix:
        target = prepared.density.target
        return flat.flatten(target.constrain(positions), target.shapes)

    def learns_until(self, prepared: Prepared) -> int:
        """Beyond all steps if adaptation, which diminishes, goes on."""
        setup, settings = prepared.setup, prepared.settings
        if settings.adapt == "always":
            return setup.warmup + settings.draws * setup.thin
        return setup.warmup if settings.adapt == "warmup" else 0


class Mh(Stationary):
    """A random walk whose covariance is first that of the Laplace approximation, if there is a mode."""

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> mh.State:  # noqa: ARG002 (nothing is random)
        cov = prepared.whitening.matrix if len(prepared.setup.root) else None
        rule = prepared.settings.step
        return mh.init(prepared.density, position, cov, (rule.size if rule is not None else None) or 1.0)

    def like(self, prepared: Prepared, n_events: int) -> mh.State:  # noqa: ARG002 (the same for all)
        d = prepared.density.dimension
        return mh.State(np.zeros(d), 0.0, mh.Adaptation(0, np.zeros(d), np.zeros((d, d)), 0.0))

    def steps(self, prepared: Prepared, state: mh.State, rng: np.random.Generator, count: int, learning: bool) -> Block:
        rule = prepared.settings.step
        accept = (rule.accept if rule is not None else None) or mh.ACCEPT
        after, positions, info = mh.steps(prepared.density, state, rng, count, adapting=learning, accept=accept)
        spent = Counters(info.n_accepted, info.n_proposed, info.n_likelihood, n_read=info.n_likelihood)
        return Block(after, positions, np.ones(count), np.full(count, after.log_density), spent)


class Mala(Stationary):
    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> mala.State:  # noqa: ARG002 (nothing is random)
        rule = prepared.settings.step
        size = (rule.size if rule is not None else None) or len(position) ** (-1 / 3)
        return mala.init(prepared.density, position, size)

    def like(self, prepared: Prepared, n_events: int) -> mala.State:  # noqa: ARG002 (the same for all)
        d = prepared.density.dimension
        return mala.State(np.zeros(d), 0.0, np.zeros(d), 0.0, 0)

    def steps(
        self, prepared: Prepared, state: mala.State, rng: np.random.Generator, count: int, learning: bool
    ) -> Block:
        rule = prepared.settings.step
        accept = (rule.accept if rule is not None else None) or mala.ACCEPT
        by = prepared.preconditioner
        after, positions, info = mala.steps(prepared.density, state, rng, count, by, learning, accept)
        spent = Counters(info.n_accepted, info.n_proposed, info.n_likelihood, info.n_gradient, n_read=info.n_likelihood)
        return Block(after, positions, np.ones(count), np.full(count, after.log_density), spent)


class Gibbs(Stationary):
    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> gibbs.State:
        return gibbs.init(prepared.density, position, rng, self._scan(prepared))

    def like(self, prepared: Prepared, n_events: int) -> gibbs.State:
        latent = self._scan(prepared) == "random" and len(prepared.density.target.blocks) > 1
        return gibbs.State(np.zeros(prepared.density.dimension), np.zeros(n_events if latent else 0))

    def learns_until(self, prepared: Prepared) -> int:  # noqa: ARG002 (there is nothing to learn)
        return 0

    def steps(
        self,
        prepared: Prepared,
        state: gibbs.State,
        rng: np.random.Generator,
        count: int,
        learning: bool,  # noqa: ARG002
    ) -> Block:
        after, positions, info = gibbs.steps(prepared.density, state, rng, count, self._scan(prepared))
        spent = Counters(n_likelihood=info.n_likelihood, n_read=info.n_likelihood)
        return Block(after, positions, np.ones(count), np.empty(0), spent)

    def _scan(self, prepared: Prepared) -> gibbs.Scan:
        return "random" if prepared.settings.scan == "random" else "systematic"
