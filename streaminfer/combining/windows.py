"""Which draws of each subposterior are combined: the newest of one segment, once they are worth enough.

A subposterior goes on to a newer segment when that has enough effective draws. Two of its segments never mix, but no
two subposteriors need the same one: any segments together give the posterior of the union of their events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streaminfer.combining import moments
from streaminfer.combining.part import Part
from streaminfer.models.model import Matrix
from streaminfer.sampling import flat
from streaminfer.sampling.pooled import pooling
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.gathering import Window as Drawn
from streaminfer.sampling.pooled.pooling import Chain
from streaminfer.sampling.pooled.shown import NOTHING, Fixed
from streaminfer.sampling.pooled.shown import Part as Shown
from streaminfer.sampling.units import Spans


def least_effective(d: int) -> float:
    """Effective draws of d numbers that are enough. Fewer make the weights of averages too noisy: 260 draws at d = 50
    in 8 subposteriors cost half a posterior sd."""
    return max(400.0, 40.0 * (d + 2))


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The draws of a subposterior that are combined, or why there are none."""

    shown: Shown
    spans: Spans
    complete: bool
    """Whether its newest segment has all draws, and these are of it."""
    part: Part | None
    """On the unconstrained scale; None: it has too few draws, or no events."""
    n_dead_lettered: int = 0
    score: float = 0.0
    n_scored: int = 0

    @property
    def empty(self) -> bool:
        """Whether it has no events, so that its prior is all there is."""
        return self.complete and self.part is None and self.shown.n_events == 0


def windows(gathered: Gathering, segments: Iterable[Fixed], target: Any, most: int, subposteriors: int) -> list[Window]:
    """Of all subposteriors, in their order: no segment is fixed of one that has no events yet."""
    fixed = {each.subposterior: each for each in segments}
    return [window(gathered, fixed[j], target, most) if j in fixed else without_events(j) for j in range(subposteriors)]


def window(gathered: Gathering, fixed: Fixed, target: Any, most: int) -> Window:
    """The newest draws, `most` at most, of the newest segment that has enough of them."""
    newest = _of_segment(gathered, fixed, fixed.number, target, most)
    if newest.part is not None or newest.empty or fixed.number == 0 or fixed.cut_off is not None:
        return newest  # that of another cut-off would be of another window than those of the others
    before = _of_segment(gathered, fixed, fixed.number - 1, target, most)
    return newest if before.part is None else before


def without_events(subposterior: int) -> Window:
    """Of a subposterior of which no segment is fixed."""
    shown = Shown(subposterior, NOTHING, 0, 0, 0.0, why="no event has come to its partitions yet")
    return Window(shown, (), False, None)


def _of_segment(gathered: Gathering, fixed: Fixed, number: int, target: Any, most: int) -> Window:
    j = fixed.subposterior
    units = gathered.windows(j, number)
    known = [drawn.newest for drawn in units.values() if drawn.newest is not None]
    done = gathered.is_complete(j, number)
    if not known:
        return Window(Shown(j, NOTHING, 0, 0, 0.0, why="its chains have no draws yet"), fixed.spans, False, None)
    chains = [drawn.chain(flat.size(target.shapes)) for drawn in units.values()]
    used = [_newest(chain if done else chain.last_half(), -(-most // len(chains))) for chain in chains]
    worth, n_draws = pooling.effective_draws(used), sum(len(chain.draws) for chain in used)
    n_events = max(draws.n_events for draws in known)
    why, part = _lacks(worth, n_events, done, target.dimension), None
    if not why:
        part = Part(unconstrained(target, used), _weights(used), worth)
        why = moments.fault(part, target.dimension) or ""
        part = None if why else part
    steps = tuple(drawn.end for drawn in units.values())
    shown = Shown(j, number, n_events, n_draws, worth, why=why, steps=steps)
    scored = next((each for drawn in units.values() for each in drawn.parts if each.n_scored), known[0])
    n_bad = max(draws.n_dead_lettered for draws in known)
    complete = done and number == fixed.number
    return Window(shown, _spans(units), complete, part, n_bad, scored.score, scored.n_scored)


def _spans(units: dict[int, Drawn]) -> Spans:
    """Of the chain that is furthest behind: along a stream they differ."""
    newest = [drawn.newest for drawn in units.values() if drawn.newest is not None]
    return min((draws.frontier for draws in newest), key=lambda spans: sum(span.end for span in spans))


def _lacks(worth: float, n_events: int, done: bool, d: int) -> str:
    """Of a segment that will have no more draws those are enough that have a covariance; a warning says the rest."""
    if done and n_events == 0:
        return "it has no good event"
    enough = worth > d + 2 if done else worth >= least_effective(d)
    if enough:
        return ""
    least = d + 3 if done else least_effective(d)
    more = ": set inference.draws or inference.thin higher" if done else ""
    return f"its draws are worth {worth:.3g} independent ones, and must be worth {least:.0f}{more}"


def _newest(chain: Chain, n: int) -> Chain:
    return Chain(*(None if each is None else each[-n:] for each in chain))  # type: ignore[arg-type]


def unconstrained(target: Any, chains: list[Chain]) -> Matrix:
    """All draws of chains, (T, d)."""
    values = np.concatenate([chain.draws for chain in chains])
    return np.asarray(target.unconstrain(flat.unflatten(values, target.shapes)), dtype=np.float64)


def _weights(chains: list[Chain]) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """None if all draws count the same."""
    weights = np.concatenate([chain.weights for chain in chains])
    return None if len(weights) and weights.min() == weights.max() else weights
