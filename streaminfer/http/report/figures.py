"""What a picture shows, apart from how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Numbers = Sequence[float | None]


class Line(NamedTuple):
    """One curve; None is a gap."""

    label: str
    values: Numbers
    dashed: bool = False


class Mark(NamedTuple):
    """A vertical line with a word."""

    x: float
    text: str


@dataclass(frozen=True)
class Figure:
    """Curves over one axis, a band between two others, and marks."""

    name: str
    x: Sequence[float]
    lines: tuple[Line, ...]
    band: tuple[Numbers, Numbers] | None = None
    """Lower and upper."""
    is_time: bool = False
    """Whether x is in seconds since 1970."""
    x_label: str = ""
    marks: tuple[Mark, ...] = ()

    @property
    def heights(self) -> list[float]:
        """All values that the picture must have room for."""
        every = [*(line.values for line in self.lines), *(self.band or ())]
        return [value for values in every for value in values if value is not None]
