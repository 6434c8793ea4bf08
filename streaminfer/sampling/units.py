"""Units: chains of subposteriors, by number. A unit is what one writer owns."""

from __future__ import annotations

from typing import NamedTuple, Self

from streaminfer.sampling.settings import Settings


class Span(NamedTuple):
    """The events at the positions [start, end) of one data partition."""

    partition: int
    start: int
    end: int


Spans = tuple[Span, ...]
"""A segment, or the share that a subposterior has of it: in the order of partitions."""


def is_of(partition: int, share: tuple[int, int]) -> bool:
    """Whether the events of a data partition are in subposterior j of J, `share` = (j, J)."""
    index, count = share
    return partition % count == index


class Unit(NamedTuple):
    """Chain `chain` of subposterior `subposterior`, where there are `chains` of each of `subposteriors`."""

    subposterior: int
    chain: int
    chains: int
    subposteriors: int

    @classmethod
    def numbered(cls, number: int, settings: Settings) -> Self:
        """Unit u = chain × subposteriors + subposterior: chains may be added or left out, and the others stay."""
        chain, subposterior = divmod(number, settings.subposteriors)
        return cls(subposterior, chain, settings.chains, settings.subposteriors)

    @property
    def number(self) -> int:
        """The number that topics, writers and randomness know it by."""
        return self.chain * self.subposteriors + self.subposterior

    def has(self, partition: int) -> bool:
        """Whether the events of a data partition are in its subposterior."""
        return is_of(partition, (self.subposterior, self.subposteriors))
