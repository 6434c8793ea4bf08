"""The draws of all chains as their master holds them: of each subposterior the two newest segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from streaminfer.sampling.draws import Counters, Draws
from streaminfer.sampling.pooled.pooling import Chain
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.units import Span, Unit

KEPT: Final = 2
"""Segments that are held."""


@dataclass
class Window:
    """What one unit has published of one segment, in the order of its steps."""

    parts: list[Draws] = field(default_factory=list)

    @property
    def newest(self) -> Draws | None:
        return self.parts[-1] if self.parts else None

    @property
    def end(self) -> int:
        """The step up to which its draws are here."""
        return self.parts[-1].end if self.parts else 0

    @property
    def phase(self) -> str:
        return self.parts[-1].phase if self.parts else "waiting"

    @property
    def n_draws(self) -> int:
        return sum(len(part.weights) for part in self.parts)

    def chain(self, size: int) -> Chain:
        """All draws as one chain, each with `size` numbers."""
        if len(self.parts) > 1:  # once joined they need not be joined again
            self.parts = [_joined(self.parts)]
        if not self.parts:
            return Chain(np.empty((0, size)), np.empty(0))
        part = self.parts[0]
        known = len(part.log_density) == len(part.weights)
        return Chain(part.values, part.weights, part.log_density if known else None)


def _joined(parts: list[Draws]) -> Draws:
    scored = next((part for part in parts if part.n_scored), parts[-1])
    return replace(
        parts[-1],
        begin=parts[0].begin,
        values=np.concatenate([part.values for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
        log_density=np.concatenate([part.log_density for part in parts]),
        score=scored.score,
        n_scored=scored.n_scored,
    )


class Counts(NamedTuple):
    """Of events, and of positions that are lost."""

    n_events: int = 0
    n_dead_lettered: int = 0
    n_lost: int = 0


class Gathering:
    """By unit and segment. Only what continues a chain is taken: no draw is doubled, and none is left out."""

    def __init__(self, settings: Settings, size: int) -> None:
        self._settings, self._size = settings, size
        self._windows: dict[int, dict[int, Window]] = {unit: {} for unit in range(settings.n_units)}

    @property
    def n_subposteriors(self) -> int:
        return self._settings.subposteriors

    def take(self, unit: int, draws: Draws) -> bool:
        """Adds the draws of a unit; whether they continue what is held of their segment."""
        held = self._windows[unit]
        window = held.get(draws.segment, Window())
        if draws.phase == "cut" and window.phase != "cut" and draws.segment >= max(held, default=0):
            held[draws.segment] = Window([draws])  # whatever the chain had drawn of it
            return True
        if draws.begin != window.end or draws.segment < max(held, default=0) - KEPT + 1:
            return False
        if window.phase in {"done", "cut"}:
            return False
        window.parts.append(draws)
        held[draws.segment] = window
        for number in [each for each in held if each <= draws.segment - KEPT]:
            del held[number]
        return True

    def windows(self, subposterior: int, segment: int) -> dict[int, Window]:
        """Of each unit of a subposterior what it has of a segment, maybe nothing."""
        return {unit: self._windows[unit].get(segment, Window()) for unit in self.units(subposterior)}

    def units(self, subposterior: int) -> range:
        """The units of a subposterior, by chain."""
        return range(subposterior, self._settings.n_units, self._settings.subposteriors)

    def is_complete(self, subposterior: int, segment: int) -> bool:
        """Whether all its chains are done with a segment."""
        return all(window.phase == "done" for window in self.windows(subposterior, segment).values())

    def is_cut(self, subposterior: int, segment: int) -> bool:
        """Whether one of its chains has lost events of the segment."""
        return any(window.phase == "cut" for window in self.windows(subposterior, segment).values())

    def n_draws(self, subposterior: int, segment: int) -> int:
        return sum(window.n_draws for window in self.windows(subposterior, segment).values())

    def chains(self, subposterior: int, segment: int) -> list[Chain]:
        """The draws of a segment by chain."""
        return [window.chain(self._size) for window in self.windows(subposterior, segment).values()]

    def followed(self, subposterior: int) -> Segment | None:
        """With a stream, the newest segment that all chains have draws of, and the positions that all have passed."""
        units = [self._windows[unit] for unit in self.units(subposterior)]
        if not all(units):
            return None
        newest = [held[max(held)].newest for held in units]
        known = [draws for draws in newest if draws is not None]
        if len(known) < len(units):
            return None
        number = min(draws.segment for draws in known)
        common = set.intersection(*({span.partition for span in draws.frontier} for draws in known))
        passed: dict[int, Span] = {}
        for span in (each for draws in known for each in draws.frontier if each.partition in common):
            before = passed.get(span.partition, span)
            passed[span.partition] = min(before, span, key=lambda each: each.end)
        return Segment(number, tuple(passed[partition] for partition in sorted(passed)))

    def n_followed(self, subposterior: int) -> Counts:
        """With a stream, what the chain that is furthest behind has counted."""
        newest = [window.newest for _, (_, window) in sorted(self.newest().items())]
        known = [draws for draws in newest if draws is not None and draws.subposterior == subposterior]
        last = min(known, key=lambda draws: draws.n_events, default=None)
        return Counts() if last is None else Counts(last.n_events, last.n_dead_lettered, last.n_lost)

    def newest(self) -> dict[int, tuple[int, Window]]:
        """Of each unit its newest segment and what it has of it."""
        found = {}
        for unit, held in self._windows.items():
            number = max(held, default=-1)
            found[unit] = (number, held.get(number, Window()))
        return found

    def unit(self, number: int) -> Unit:
        return Unit.numbered(number, self._settings)


def total(windows: Mapping[int, Window]) -> Counters:
    """What all chains have done together."""
    newest = [window.newest for window in windows.values()]
    counted = [draws.counters for draws in newest if draws is not None]
    return Counters(*(sum(numbers) for numbers in zip(*counted, strict=True))) if counted else Counters()
