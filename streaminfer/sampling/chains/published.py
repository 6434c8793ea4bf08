"""The draws of a chain as they are published, with what they say of the chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streaminfer.sampling.chains.chain import Drawn
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.states import SamplerState
from streaminfer.sampling.units import Unit


class Scored(NamedTuple):
    """The sum of the log predictive densities of some new events, and how many they are."""

    score: float = 0.0
    n_scored: int = 0


class Steps(NamedTuple):
    """The size of a step, and the variance of gradients that it follows from."""

    size: float = 0.0
    noise: float = 0.0


def published(
    now: SamplerState,
    unit: Unit,
    begin: int,
    drawn: Sequence[Drawn],
    width: int,
    steps: Steps,
    scored: Scored | None = None,
) -> Draws:
    """The draws of the steps from `begin` to the state as it is now, `width` numbers each; there may be none."""
    said = Scored() if scored is None else scored
    return Draws(
        fingerprint=now.fingerprint,
        subposterior=unit.subposterior,
        chain=unit.chain,
        segment=now.segment,
        phase=now.phase,
        begin=begin,
        end=now.step,
        thin=now.thin,
        size=steps.size,
        noise=steps.noise,
        values=np.concatenate([np.empty((0, width)), *(each.values for each in drawn)]),
        weights=np.concatenate([np.empty(0), *(each.weights for each in drawn)]),
        log_density=np.concatenate([np.empty(0), *(each.log_density for each in drawn)]),
        counters=now.counters,
        n_events=now.n_events,
        n_dead_lettered=now.n_dead_lettered,
        n_lost=now.n_lost,
        frontier=now.frontier,
        score=said.score,
        n_scored=said.n_scored,
    )
