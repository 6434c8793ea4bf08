"""Repetitions in turn (A B A B ...), and what they come to: medians, spreads and ratios within one repetition."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from benchmarks.contenders.task import Outcome

Samples = Mapping[str, float]
"""What one run of a contender measured, by name."""


@dataclass(frozen=True)
class Aim:
    """What a figure should be: at least, or at most."""

    kind: Literal[">=", "<="]
    value: float

    def met(self, found: float) -> bool:
        return found >= self.value if self.kind == ">=" else found <= self.value


@dataclass(frozen=True)
class Ratio:
    """One contender's figure over another's, in the same repetition."""

    name: str
    over: str
    under: str
    aim: Aim | None = None
    unit: str = "ratio"

    def of(self, over: float, under: float) -> float:
        return over / under


@dataclass(frozen=True)
class Difference(Ratio):
    """One contender's figure less another's: of what is on no scale of ratios, such as log densities."""

    def of(self, over: float, under: float) -> float:
        return over - under


@dataclass(frozen=True)
class Figure:
    """A line of the table: samples in the order of the repetitions."""

    case: str
    name: str
    unit: str
    samples: tuple[float, ...]
    aim: Aim | None = None

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        return min(self.samples), max(self.samples)

    @property
    def met(self) -> bool | None:
        """Whether the median is what it should be; None if nothing is asked of it."""
        return None if self.aim is None else self.aim.met(self.median)


@dataclass(frozen=True)
class Case:
    """Contenders with the same work. Each run gives samples, whose names (`ours`, `ours p99`) are those of figures.

    `units` are of figures that have another unit than the case; it is repeated at most `most` times.
    """

    letter: str
    title: str
    unit: str
    contenders: Mapping[str, Callable[[], Samples]]
    ratios: Sequence[Ratio] = ()
    aims: Mapping[str, Aim] | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    most: int | None = None


def is_chosen(letter: str, only: str) -> bool:
    """Whether a case such as `l3` is among those asked for: by letter (`al`) or with a number (`al3`); all if empty."""
    return not only or any(each in (letter, letter[0]) for each in re.findall(r"[a-z]\d*", only))


def rate(name: str, run: Callable[[], Outcome]) -> Callable[[], Samples]:
    """A contender whose only figure is its events a second."""

    def samples() -> Samples:
        return {name: run().rate}

    return samples


def measured(case: Case, repetitions: int, told: Callable[[str], None] = lambda _: None) -> list[Figure]:
    """All contenders in turn, again and again, so that what disturbs the machine for a while disturbs all of them."""
    samples: dict[str, list[float]] = {}
    repetitions = repetitions if case.most is None else min(repetitions, case.most)
    for repetition in range(1, repetitions + 1):
        for name, run in case.contenders.items():
            told(f"{case.letter}: {name}, {repetition} of {repetitions}")
            for figure, value in run().items():
                samples.setdefault(figure, []).append(value)
    aims = case.aims or {}
    figures = [
        Figure(case.letter, name, case.units.get(name, case.unit), tuple(found), aims.get(name))
        for name, found in samples.items()
    ]
    for ratio in case.ratios:
        pairs = zip(samples[ratio.over], samples[ratio.under], strict=True)
        found = tuple(ratio.of(a, b) for a, b in pairs)
        figures.append(Figure(case.letter, ratio.name, ratio.unit, found, ratio.aim))
    return figures
