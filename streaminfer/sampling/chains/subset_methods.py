"""poisson_mh and subsampled_mh: random walks whose decisions read some of the events."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import remainders
from streaminfer.sampling.chains.full_data import Stationary
from streaminfer.sampling.chains.kernel import Block
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.kernels import mh, poisson_mh, subsampled_mh
from streaminfer.sampling.kernels.poisson_mh import Info, State

READ: Final = 1 << 22
"""Events that a block of steps reads at most, or about so: a second's work."""
MOST_STEPS: Final = 1024
"""Enough that what is done around a block takes no time beside it."""


class _Walk(Stationary):
    """Nobody knows the density of a draw without reading all events.

    If there is a mode, the walk has its Laplace covariance and learns its scale only: that of a few steps is worse.
    """

    knows_density = False

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> State:  # noqa: ARG002 (nothing is random)
        cov = prepared.whitening.matrix if len(prepared.setup.root) else None
        rule = prepared.settings.step
        return poisson_mh.init(position, cov, (rule.size if rule is not None else None) or 1.0)

    def like(self, prepared: Prepared, n_events: int) -> State:  # noqa: ARG002 (the same for all)
        d = prepared.density.dimension
        return State(np.zeros(d), 0.0, False, mh.Adaptation(0, np.zeros(d), np.zeros((d, d)), 0.0))

    def directions(self, prepared: Prepared) -> bool:
        """Whether the covariance of the walk is learned."""
        return not len(prepared.setup.root)

    def accept(self, prepared: Prepared) -> float:
        rule = prepared.settings.step
        return (rule.accept if rule is not None else None) or mh.ACCEPT


class PoissonMh(_Walk):
    def block(self, prepared: Prepared) -> int:
        """As many steps as are quick where the posterior is, which is sqrt(d) deviations around the mode."""
        proxy, far = prepared.proxy, math.sqrt(prepared.density.dimension)
        typical = proxy.total * float(remainders.change(proxy.order, far, far, 2.38))
        mean = min(prepared.density.n, poisson_mh.mean_events(typical, self._chi(prepared)))
        return max(1, min(MOST_STEPS, int(READ / (1 + mean))))

    def steps(self, prepared: Prepared, state: State, rng: np.random.Generator, count: int, learning: bool) -> Block:
        found = poisson_mh.steps(
            prepared.proxy,
            state,
            rng,
            count,
            learning,
            self.accept(prepared),
            self._chi(prepared),
            self.directions(prepared),
        )
        return _block(*found)

    def _chi(self, prepared: Prepared) -> float:
        return prepared.settings.chi or poisson_mh.CHI


class SubsampledMh(_Walk):
    """Its decisions are wrong now and then, as the rule allows."""

    exactness = "approximate"

    def block(self, prepared: Prepared) -> int:
        return n_decisions(prepared)

    def steps(self, prepared: Prepared, state: State, rng: np.random.Generator, count: int, learning: bool) -> Block:
        walk = (None, learning, self.accept(prepared), self.directions(prepared))
        return _block(*subsampled_mh.steps(prepared.subsets, state, rng, picking(rng), count, *walk))


def n_decisions(prepared: Prepared) -> int:
    """Of a block: each of them may read all events."""
    return max(1, min(64, READ // max(1, prepared.density.n)))


def picking(rng: np.random.Generator) -> np.random.Generator:
    """Random numbers for subsets, so that proposals do not depend on how large these are."""
    return np.random.Generator(np.random.Philox(key=rng.integers(0, 2**64, 2, dtype=np.uint64)))


def _block(state: State, positions: Matrix, info: Info) -> Block:
    spent = Counters(info.n_accepted, info.n_proposed, info.n_likelihood, n_read=info.n_read)
    return Block(state, positions, np.ones(len(positions)), np.empty(0), spent)
