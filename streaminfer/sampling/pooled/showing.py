"""Which draws a snapshot shows: those of the newest segment once they are worth something, else of the one before."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.pooled import gathering, pooling
from streaminfer.sampling.pooled.gathering import Gathering, Window
from streaminfer.sampling.pooled.pooling import Pooled
from streaminfer.sampling.pooled.shown import ChainShown, Part, Shown
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings

LEAST_EFFECTIVE: Final = 500
"""Effective draws from which on an unfinished segment is shown."""
GROWTH: Final = 1.1
"""So many times the draws that were last looked at are worth another look."""


class Showing(NamedTuple):
    """The draws of one segment, pooled, and what is said of them."""

    statistics: Vector
    draws: Matrix
    shown: Shown
    n_events: int
    n_dead_lettered: int
    score: float


class Watcher:
    """Pools the chains of one subposterior whenever enough new draws have come."""

    def __init__(self, settings: Settings, gathered: Gathering, subposterior: int = 0) -> None:
        self._settings, self._gathered, self._subposterior = settings, gathered, subposterior
        self._looked_at = (-1, 0, False)
        """Segment, draws and completeness of the last look."""

    def look(self, segment: int) -> Showing | None:
        """What is to be shown of a segment, if that is something new."""
        gathered, j = self._gathered, self._subposterior
        complete, n_draws = gathered.is_complete(j, segment), gathered.n_draws(j, segment)
        before, drawn, was_complete = self._looked_at
        if before == segment and (was_complete or (not complete and n_draws < GROWTH * max(drawn, 1))):
            return None
        self._looked_at = (segment, n_draws, complete)
        windows = gathered.windows(j, segment)
        if not complete and n_draws == 0:
            return None
        rng = Key(self._settings.seed, "retained", j, segment).generator(n_draws)
        pooled = pooling.pool(gathered.chains(j, segment), complete, rng)
        if not complete and pooled.n_effective < LEAST_EFFECTIVE:
            return None
        return _showing(j, segment, complete, windows, pooled)


def _showing(j: int, segment: int, complete: bool, windows: dict[int, Window], pooled: Pooled) -> Showing:
    newest = [window.newest for window in windows.values()]
    known = [draws for draws in newest if draws is not None]
    first, counters = known[0], gathering.total(windows)
    n_events = max(draws.n_events for draws in known)
    n_steps = sum(draws.end for draws in known)
    scored = next((part for window in windows.values() for part in window.parts if part.n_scored), first)
    retained = dict(zip(windows, pooled.by_chain, strict=True))
    shown = Shown(
        segment=segment,
        complete=complete,
        n_draws=pooled.n_draws,
        size=first.size,
        noise=first.noise,
        acceptance=counters.n_accepted / counters.n_proposed if counters.n_proposed else None,
        fraction=counters.n_read / (n_steps * n_events) if n_steps and n_events else None,
        counters=counters,
        n_scored=scored.n_scored,
        subposteriors=(Part(j, segment, n_events, pooled.n_draws, pooled.n_effective),),
        chains=tuple(ChainShown(unit, window.phase, window.end, 0, retained[unit]) for unit, window in windows.items()),
    )
    n_bad = max(draws.n_dead_lettered for draws in known)
    return Showing(pooled.statistics.vector, pooled.retained, shown, n_events, n_bad, scored.score)


def with_progress(shown: Shown, gathered: Gathering, read_to: dict[int, int]) -> Shown:
    """The same with how far every chain is now; what is retained is of the draws that are shown."""
    retained = {chain.unit: chain.n_retained for chain in shown.chains}
    chains = tuple(
        ChainShown(unit, window.phase, window.end, read_to.get(unit, 0), retained.get(unit, 0))
        for unit, (_, window) in sorted(gathered.newest().items())
    )
    return replace(shown, chains=chains)
