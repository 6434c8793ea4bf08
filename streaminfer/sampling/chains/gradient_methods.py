"""sgld, sghmc and sgnht: a minibatch for each step, and a target that is nearly right."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling import flat
from streaminfer.sampling.chains import prepared as preparing
from streaminfer.sampling.chains.kernel import Block
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.chains.subset_methods import n_decisions, picking
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.kernels import sghmc, sgld, sgnht
from streaminfer.sampling.kernels.chain import Dynamics, Info, StepBlock

STEPS: Final = 64
"""Of a block: the loop is compiled, and random numbers are drawn for all of them at once."""


class _Stochastic(ABC):
    """What the three have in common."""

    exactness: Final = "approximate"
    knows_density: Final = False

    def block(self, prepared: Prepared) -> int:  # noqa: ARG002 (the same for all)
        return STEPS

    def first(self, prepared: Prepared, rng: np.random.Generator) -> Vector:
        return preparing.start(prepared, rng)

    def like(self, prepared: Prepared, n_events: int) -> Any:  # noqa: ARG002 (the same for all)
        """Without a place: a state of zeros."""
        return self.start(prepared, np.zeros(prepared.density.dimension), np.random.default_rng(0))

    @abstractmethod
    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> Any:
        """The state of a chain at a position (d,)."""

    def undone(self, state: Any) -> int:
        return int(state.undone)

    def position(self, state: Any) -> Vector:
        return np.asarray(state.position, dtype=np.float64)

    def values(self, prepared: Prepared, positions: Matrix) -> Matrix:
        target = prepared.density.target
        return flat.flatten(target.constrain(positions), target.shapes)


def _learns(prepared: Prepared) -> bool:
    return prepared.settings.precondition == "rms"


def _block(prepared: Prepared, state: Any, block: StepBlock, info: Info) -> Block:
    n_read = info.n_gradient // prepared.dynamics.gradients.cost
    spent = Counters(n_gradient=info.n_gradient, n_undone=info.n_undone, n_read=n_read)
    return Block(state, block.positions, block.weights, np.empty(0), spent)


class Sgld(_Stochastic):
    """Learns the preconditioner `rms` during warm-up. Steps may be corrected by tests on subsets afterwards."""

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> sgld.State:  # noqa: ARG002 (a position is all)
        return sgld.init(position)

    def learns_until(self, prepared: Prepared) -> int:
        return prepared.setup.warmup if _learns(prepared) else 0

    def steps(
        self, prepared: Prepared, state: sgld.State, rng: np.random.Generator, count: int, learning: bool
    ) -> Block:
        learned = _learns(prepared) and not learning and bool(state.squares.any())
        dynamics = prepared.learned(state.squares) if learned else prepared.dynamics
        if prepared.settings.correct is None or learning:
            return _block(prepared, *sgld.steps(dynamics, state, rng, count, adapting=learning))
        picks = picking(rng)
        after, block, info, decided = sgld.corrected(dynamics, prepared.subsets, state, rng, picks, count)
        made = _block(prepared, after, block, info)
        spent = made.spent._replace(
            n_accepted=decided.n_accepted,
            n_proposed=decided.n_proposed,
            n_likelihood=decided.n_likelihood,
            n_read=made.spent.n_read // 2 + decided.n_read,
        )
        return made._replace(spent=spent)

    def block(self, prepared: Prepared) -> int:
        return STEPS if prepared.settings.correct is None else n_decisions(prepared)


class Found(NamedTuple):
    """A chain that first finds a preconditioner by sgld: what it has found, and its own state from then on."""

    learned: sgld.State
    own: Any


class _Moving(_Stochastic):
    """A method with velocities. Steps of sgld learn `rms` in the first half of warm-up, if it is to be learned."""

    @abstractmethod
    def init(self, dynamics: Dynamics, prepared: Prepared, position: Vector, rng: np.random.Generator) -> Any:
        """The method's own state at a position (d,)."""

    @abstractmethod
    def moved(
        self, dynamics: Dynamics, prepared: Prepared, state: Any, rng: np.random.Generator, count: int
    ) -> tuple[Any, StepBlock, Info]:
        """A block of the method's own steps."""

    def start(self, prepared: Prepared, position: Vector, rng: np.random.Generator) -> Any:
        own = self.init(prepared.dynamics, prepared, position, rng)
        return Found(sgld.init(position), own) if _learns(prepared) else own

    def learns_until(self, prepared: Prepared) -> int:
        return prepared.setup.warmup // 2 if _learns(prepared) else 0

    def steps(self, prepared: Prepared, state: Any, rng: np.random.Generator, count: int, learning: bool) -> Block:
        if not isinstance(state, Found):
            return _block(prepared, *self.moved(prepared.dynamics, prepared, state, rng, count))
        if learning:
            learned, block, info = sgld.steps(prepared.dynamics, state.learned, rng, count, adapting=True)
            return _block(prepared, Found(learned, state.own), block, info)
        dynamics, own = prepared.learned(state.learned.squares), state.own
        if own.n_steps == 0:
            own = self.init(dynamics, prepared, state.learned.position, rng)
        own, block, info = self.moved(dynamics, prepared, own, rng, count)
        return _block(prepared, Found(state.learned, own), block, info)

    def undone(self, state: Any) -> int:
        if isinstance(state, Found):
            return int(state.own.undone if state.own.n_steps else state.learned.undone)
        return int(state.undone)

    def position(self, state: Any) -> Vector:
        moving = state if not isinstance(state, Found) else state.own if state.own.n_steps else state.learned
        return np.asarray(moving.position, dtype=np.float64)


class Sghmc(_Moving):
    def init(self, dynamics: Dynamics, prepared: Prepared, position: Vector, rng: np.random.Generator) -> sghmc.State:  # noqa: ARG002 (as the others)
        return sghmc.init(position, dynamics.preconditioner, rng)

    def moved(
        self, dynamics: Dynamics, prepared: Prepared, state: Any, rng: np.random.Generator, count: int
    ) -> tuple[Any, StepBlock, Info]:
        settings = prepared.settings
        return sghmc.steps(dynamics, state, rng, count, settings.friction or 1.0, settings.noise or 0.0)


class Sgnht(_Moving):
    def init(self, dynamics: Dynamics, prepared: Prepared, position: Vector, rng: np.random.Generator) -> sgnht.State:  # noqa: ARG002 (as the others)
        return sgnht.init(position, rng, prepared.settings.friction or 1.0)

    def moved(
        self, dynamics: Dynamics, prepared: Prepared, state: Any, rng: np.random.Generator, count: int
    ) -> tuple[Any, StepBlock, Info]:
        return sgnht.steps(dynamics, state, rng, count, prepared.settings.friction or 1.0)
