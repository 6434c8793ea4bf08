"""Documents as bags of words: which words each has, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.intp]
Vector = NDArray[np.float64]


class Documents(NamedTuple):
    """n documents, one after the other: document d has the entries from starts[d] to starts[d + 1].

    An entry is the number of a word, which is a row of the topics at hand, and its count, finite and not below 0.
    A word has one entry in a document at most.
    """

    starts: Numbers
    """(n + 1,), from 0 to the number of entries."""
    words: Numbers
    """(entries,)"""
    counts: Vector
    """(entries,)"""

    @classmethod
    def of(cls, bags: Iterable[Mapping[int, float]]) -> Self:
        """From a count of each word, one mapping for each document."""
        bags = list(bags)
        starts = np.cumsum([0, *(len(bag) for bag in bags)], dtype=np.intp)
        words = np.fromiter((word for bag in bags for word in bag), np.intp, starts[-1])
        counts = np.fromiter((count for bag in bags for count in bag.values()), np.float64, starts[-1])
        return cls(starts, words, counts)

    @property
    def n(self) -> int:
        """How many documents there are."""
        return len(self.starts) - 1

    @property
    def entries(self) -> Numbers:
        """How many different words each has, (n,)."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Numbers:
        """The document of each entry, (entries,)."""
        return np.repeat(np.arange(self.n), self.entries)

    @property
    def lengths(self) -> Vector:
        """How many words each has, repeated ones as often as they are there, (n,)."""
        return np.bincount(self.owners, self.counts, self.n).astype(np.float64, copy=False)

    def select(self, which: NDArray[Any]) -> Documents:
        """The documents of these numbers, in their order; or those whose flags (n,) are set."""
        which = np.arange(self.n)[which]
        entries = self.entries[which]
        starts = np.concatenate([[0], np.cumsum(entries)]).astype(np.intp)
        places = np.arange(starts[-1]) + np.repeat(self.starts[which] - starts[:-1], entries)
        return Documents(starts, self.words[places], self.counts[places])

    def with_counts(self, counts: Vector) -> Documents:
        """The same documents with other counts (entries,), and without the entries whose count is 0."""
        some = counts > 0
        entries = np.bincount(self.owners[some], minlength=self.n)
        starts = np.concatenate([[0], np.cumsum(entries)]).astype(np.intp)
        return Documents(starts, self.words[some], counts[some])

    def split(self, size: int) -> list[Documents]:
        """Minibatches of `size` documents in their order; the last may have fewer."""
        return [self.select(np.arange(first, min(first + size, self.n))) for first in range(0, self.n, size)]

    def compact(self) -> tuple[Numbers, Documents]:
        """The words that occur, ascending (m,), and the same documents with words numbered by their place in them."""
        present, words = np.unique(self.words, return_inverse=True)
        return present, self._replace(words=words.astype(np.intp, copy=False))
