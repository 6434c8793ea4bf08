"""A chain on one segment, block by block: warm-up, then draws, then it is done.

Everything is a function of the data, the settings and the names of the chain: a block that is taken again in another
process, from the same state, gives the same numbers.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling import flat
from streaminfer.sampling.chains import packing
from streaminfer.sampling.chains.kernel import Kernel
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.chains.table import kernel_for
from streaminfer.sampling.draws import Counters
from streaminfer.sampling.subsets.proxy import BrokenBound

MOST_UNDONE: Final = 100
"""Steps in a row that may leave the finite numbers."""


class Diverged(ValueError):
    """A chain that cannot go on; says why, and what to change."""


class Chain(NamedTuple):
    """Where a chain is in its segment. `state` is that of its kernel."""

    phase: str
    """warmup, draws or done."""
    step: int
    block: int
    n_drawn: int
    state: Any
    counters: Counters

    @property
    def done(self) -> bool:
        return self.phase == "done"


class Drawn(NamedTuple):
    """The draws of a block: parameters (n, D), weights (n,), and log densities (n,) or (0,) if they are not known."""

    values: Matrix
    weights: Vector
    log_density: Vector


def kernel_of(prepared: Prepared) -> Kernel:
    return kernel_for(prepared.settings.method, prepared.density.target)


def begin(prepared: Prepared, position: Vector | None) -> Chain:
    """A chain at the start of a segment: at the position that it has reached in the segment before, or anew."""
    kernel, rng = kernel_of(prepared), prepared.key.of("start").generator(0)
    first = kernel.first(prepared, rng)
    state = kernel.start(prepared, first if position is None else position, rng)
    counters = Counters(n_setup=prepared.setup.n_setup)
    return Chain(_phase(prepared, 0), 0, 0, 0, state, counters)


def packed(chain: Chain) -> Vector:
    """The state of the kernel as numbers."""
    return packing.flatten(chain.state)


def unpacked(prepared: Prepared, numbers: Vector) -> Any:
    """The state of the kernel from numbers; raises ValueError if they are not its own."""
    return packing.unflatten(kernel_of(prepared).like(prepared, prepared.density.n), numbers)


def last_position(prepared: Prepared, numbers: Vector, n_events: int) -> Vector:
    """Where a chain was at the end of an earlier segment of so many events, from the state of its kernel then."""
    kernel = kernel_of(prepared)
    return kernel.position(packing.unflatten(kernel.like(prepared, n_events), numbers))


def _phase(prepared: Prepared, step: int) -> str:
    if step < prepared.setup.warmup:
        return "warmup"
    return "draws" if step < _end(prepared) else "done"


def _end(prepared: Prepared) -> int:
    return prepared.setup.warmup + prepared.settings.draws * prepared.setup.thin


def advance(prepared: Prepared, chain: Chain) -> tuple[Chain, Drawn]:
    """One block of steps; raises Diverged after MOST_UNDONE steps in a row that left the finite numbers."""
    kernel, warmup = kernel_of(prepared), prepared.setup.warmup
    learned = kernel.learns_until(prepared)
    length = 1 if prepared.settings.source == "stream" else kernel.block(prepared)
    end = min(each for each in (chain.step + length, learned, warmup, _end(prepared)) if each > chain.step)
    rng = prepared.key.generator(chain.block)
    try:
        block = kernel.steps(prepared, chain.state, rng, end - chain.step, chain.step < learned)
    except BrokenBound as error:
        raise Diverged(str(error)) from error
    if kernel.undone(block.state) >= MOST_UNDONE:
        raise Diverged(
            f"inference.step: {MOST_UNDONE} steps in a row left the finite numbers (a first step has the size "
            f"{prepared.setup.size:.3g}): make steps smaller, scale the features, or raise the prior's precision"
        )
    steps = np.arange(chain.step + 1, end + 1)
    chosen = np.flatnonzero((steps > warmup) & ((steps - warmup) % prepared.setup.thin == 0))
    drawn, n_likelihood = _drawn(prepared, block.positions[chosen], block.weights[chosen], block.log_density, chosen)
    spent = block.spent._replace(n_likelihood=block.spent.n_likelihood + n_likelihood)
    counters = Counters(*(a + b for a, b in zip(chain.counters, spent, strict=True)))
    after = Chain(_phase(prepared, end), end, chain.block + 1, chain.n_drawn + len(chosen), block.state, counters)
    return after, drawn


def _drawn(prepared: Prepared, positions: Matrix, weights: Vector, known: Vector, chosen: Any) -> tuple[Drawn, int]:
    """The draws at positions, and how many likelihoods of single events their log densities took."""
    if not len(chosen):  # and a target need not know what to make of none
        return Drawn(np.empty((0, flat.size(prepared.density.target.shapes))), weights, np.empty(0)), 0
    kernel = kernel_of(prepared)
    values, cost = prepared.in_order(kernel.values(prepared, positions)), 0
    log_density = known[chosen] if len(known) else known
    if not len(known) and kernel.knows_density:
        log_density, cost = prepared.density.log_density(positions), prepared.density.n * len(chosen)
    if not (np.isfinite(values).all() and np.isfinite(log_density).all()):
        raise Diverged(
            "a draw has parameters or a density beyond float64: the posterior reaches values that no number can hold; "
            "raise the prior's precision"
        )
    return Drawn(values, weights, log_density), cost
