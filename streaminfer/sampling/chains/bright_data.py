"""flymc: a step reads the bright events, and the draws are of the target itself."""

from __future__ import annotations

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.sampling.chains.full_data import Stationary
from streaminfer.sampling.chains.kernel import Block
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.kernels import brightness, flymc, mala, mh


class FlyMc(Stationary):
    """A random walk or Langevin steps, by the density that bright events have.

    If there is a mode, the walk has its Laplace covariance and learns its scale only, as others on subsets do.
    """

    knows_density = False

    def block(self, prepared: Prepared) -> int:
        """Steps of few bright events are short."""
        return 16 if prepared.settings.bound is not None and prepared.settings.bound.tune == "mode" else 1

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> flymc.State:
        """Brightness is drawn anew at a segment's start: the events are others."""
        rule, langevin = prepared.settings.step, _langevin(prepared)
        usual = len(position) ** (-1 / 3) if langevin else 1.0
        size = (rule.size if rule is not None else None) or usual
        cov = prepared.whitening.matrix if len(prepared.setup.root) else None
        return flymc.init(prepared.density, prepared.bound, position, size, rng, cov, langevin)

    def like(self, prepared: Prepared, n_events: int) -> flymc.State:
        d = prepared.density.dimension
        walk: flymc.Walk = mh.State(np.zeros(d), 0.0, mh.Adaptation(0, np.zeros(d), np.zeros((d, d)), 0.0))
        if _langevin(prepared):
            walk = mala.State(np.zeros(d), 0.0, np.zeros(d), 0.0, 0)
        return flymc.State(walk, brightness.none(n_events))

    def position(self, state: flymc.State) -> Vector:
        return np.asarray(state.walk.position, dtype=np.float64)

    def steps(
        self, prepared: Prepared, state: flymc.State, rng: np.random.Generator, count: int, learning: bool
    ) -> Block:
        settings = prepared.settings
        rule = "implicit" if settings.bound is None else settings.bound.update
        update = flymc.Update(rule, float(prepared.setup.bound[0]))
        accept = None if settings.step is None else settings.step.accept
        walk = (prepared.whitening, learning, accept, not len(prepared.setup.root))
        after, positions, info = flymc.steps(prepared.density, prepared.bound, state, rng, count, update, *walk)
        spent = Counters(info.n_accepted, info.n_proposed, info.n_likelihood, info.n_gradient, n_read=info.n_likelihood)
        return Block(after, positions, np.ones(count), np.empty(0), spent)


def _langevin(prepared: Prepared) -> bool:
    return prepared.settings.proposal == "langevin"
