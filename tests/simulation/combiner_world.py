"""Schedules of combiners: the same world of samplers, with two subposteriors and who joins them.

A combination is a function of draws, events, seed and round. So every one that a reader sees must be, bit by bit, what
the draws on the log give for its round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from streaminfer.combining import correction, windows
from streaminfer.sampling.pooled import pooling
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.combined_subscribers import CombinedSubscriber
from tests.simulation.sampler_world import Samplers, SamplerWorld, own_scratch
from tests.simulation.subscribers import Wrong

PROPOSALS = 64
LEAST = 15.0
"""Draws of a segment under way: so few that there are many rounds."""


@dataclass
class CombinerWorld(SamplerWorld):
    """Masters are combiners here."""

    turns = (400, 900)
    fair_rounds = 800

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ticks = self.rng.choice([(0.0, 0.01, 0.04), (0.0, 0.02, 0.1), (0.0, 0.1, 0.4)])

    def make_spec(self) -> Spec:
        return _spec(self.rng)

    def make_subscriber(self) -> CombinedSubscriber:  # type: ignore[override]
        return CombinedSubscriber(self)


def _spec(rng: random.Random) -> Spec:
    combine: dict[str, Any] = {"by": "average", "window": 100, "draws": 20}
    if rng.random() < 0.5:
        combine |= {"missing": "leave_out", "missing_seconds": rng.choice([0.0, 5.0])}
    inference = {
        "method": "gibbs",
        "subposteriors": 2,
        "chains": rng.choice([1, 2]),
        "draws": 60,
        "warmup": rng.choice([0, 5]),
        "seed": rng.choice([0, 7]),
        "segment": {"growth": 1.5},
        "snapshot_ms": rng.choice([1, 50]),
        "combine": combine,
    }
    model = {"kind": "bernoulli", "field": "x"}
    data = {"partitions": rng.randint(2, 3)}
    return parse_spec({"name": "simulated", "data": data, "model": model, "inference": inference})


@contextmanager
def _small() -> Iterator[None]:
    """Few proposals, and few draws that are enough. Those of this model are independent, and count as that."""
    before = (correction.propose.__defaults__, correction.PROPOSALS, windows.least_effective, pooling.effective_draws)
    _set((PROPOSALS,), PROPOSALS, lambda _: LEAST, lambda chains: float(sum(len(chain.draws) for chain in chains)))
    try:
        yield
    finally:
        _set(*before)


def _set(defaults: Any, proposals: int, least: Any, worth: Any) -> None:
    correction.propose.__defaults__ = defaults
    vars(correction)["PROPOSALS"] = proposals
    vars(windows)["least_effective"] = least
    vars(pooling)["effective_draws"] = worth


def play(seed: int, classes: Callable[[], Samplers] = Samplers) -> tuple[Snapshot, CombinedSubscriber]:
    """One schedule from its seed; raises Wrong with the seed in its text."""
    with own_scratch(), _small():
        world = CombinerWorld(seed, classes=classes())
        try:
            return world.run(), world.subscriber  # type: ignore[return-value]
        except Wrong as wrong:
            raise Wrong(f"seed {seed}: {wrong}") from None
        finally:
            for process in world.processes:
                world.kill(process)
