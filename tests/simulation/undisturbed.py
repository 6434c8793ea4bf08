"""Chains that nothing ever happens to: what every draw on the bus is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.chains.chain import Chain
from streaminfer.sampling.chains.prepared import Prepared, of_data
from streaminfer.sampling.pooled import pooling
from streaminfer.sampling.pooled.pooling import Pooled
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec


class Through(NamedTuple):
    """A chain that is through with a segment: its draws, and where it was after each block."""

    values: Matrix
    weights: Vector
    log_density: Vector
    after: dict[int, Chain]
    """By step; step 0 is the start."""
    packed: Vector
    """The state of its kernel in the end."""

    @property
    def end(self) -> int:
        return max(self.after)

    @property
    def chain(self) -> pooling.Chain:
        known = len(self.log_density) == len(self.weights)
        return pooling.Chain(self.values, self.weights, self.log_density if known else None)


class Undisturbed:
    """The chains of one spec on the segments that were fixed, one after the other, in peace."""

    def __init__(self, spec: Spec, settings: Settings, rows_of: Callable[[Segment], Matrix]) -> None:
        """`rows_of` gives the good events of a segment, by partition and then by position."""
        self._spec, self._settings, self._rows_of = spec, settings, rows_of
        self._through: dict[int, list[Through]] = {unit: [] for unit in range(settings.chains)}
        self.n_events: list[int] = []
        """By segment."""

    def add(self, segment: Segment) -> None:
        """All chains through the next segment."""
        density = Density(self._spec.target, self._rows_of(segment))
        key = Key(self._settings.seed, "steps", 0, segment.number)
        setup = setting_up.all_at_once(density, self._settings, key, segment.number == 0)
        fixed = of_data(density, self._settings, setup)
        self.n_events.append(density.n)
        for unit, before in self._through.items():
            of_unit = Key(self._settings.seed, "steps", unit, segment.number)
            prepared = Prepared(density, self._settings, of_unit, setup, fixed)
            before.append(_through(prepared, self._last_position(prepared, before)))

    def _last_position(self, prepared: Prepared, before: list[Through]) -> Vector | None:
        if not before:
            return None
        return chains.last_position(prepared, before[-1].packed, self.n_events[-2])

    def of(self, unit: int, segment: int) -> Through:
        return self._through[unit][segment]

    def pooled(self, segment: int) -> Pooled:
        """All draws of a segment as a snapshot should show them."""
        each = [through[segment].chain for through in self._through.values()]
        n_draws = sum(len(chain.weights) for chain in each)
        rng = Key(self._settings.seed, "retained", 0, segment).generator(n_draws)
        return pooling.pool(each, True, rng)


def _through(prepared: Prepared, position: Vector | None) -> Through:
    chain, drawn = chains.begin(prepared, position), []
    after = {chain.step: chain}
    while not chain.done:
        chain, part = chains.advance(prepared, chain)
        drawn.append(part)
        after[chain.step] = chain
    return Through(
        np.concatenate([each.values for each in drawn]),
        np.concatenate([each.weights for each in drawn]),
        np.concatenate([each.log_density for each in drawn]),
        after,
        chains.packed(chain),
    )
