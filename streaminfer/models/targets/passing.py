"""A target with the events of one minibatch, which stand for all: what a chain has that reads a stream once."""

from __future__ import annotations

from dataclasses import dataclass

from streaminfer.models.targets.density import Density


@dataclass(frozen=True, eq=False)
class PassingEvents(Density):
    """`total` is how many events the rows stand for."""

    total: int = 0

    @property
    def n(self) -> int:
        return self.total
