"""Documents as the rows of one matrix, and a target with such rows.

A row is an entry of a document: whether it is the document's first, the number of a word, and its count. A document
without words has one row, of count 0: it is an event as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from streaminfer.models.lda.documents import Documents, Numbers
from streaminfer.models.model import Matrix
from streaminfer.models.targets import parts
from streaminfer.models.targets.density import Density

COLUMNS: Final = 3
FIRST, WORD, COUNT = range(COLUMNS)


def rows_of(documents: Documents) -> Matrix:
    """The rows of documents, one document after the other."""
    entries = documents.entries
    ends = np.cumsum(np.maximum(entries, 1))
    rows = np.zeros((int(ends[-1]) if documents.n else 0, COLUMNS))
    rows[ends - np.maximum(entries, 1), FIRST] = 1.0
    # Each document without words has moved the entries behind it by one row.
    places = np.arange(len(documents.words)) + np.cumsum(entries == 0)[documents.owners]
    rows[places, WORD], rows[places, COUNT] = documents.words, documents.counts
    return rows


def starts_of(rows: Matrix) -> Numbers:
    """Where each document begins, and after the last one the number of rows: (n + 1,)."""
    found = [np.flatnonzero(rows[each, FIRST]) + each.start for each in parts.slices(rows)]
    return np.concatenate([*found, [len(rows)]]).astype(np.intp)


def lengths_of(rows: Matrix) -> Numbers:
    """How many rows each document has, (n,)."""
    return np.diff(starts_of(rows))


@dataclass(frozen=True, eq=False)
class Corpus(Density):
    """An event is a document, so there are fewer of them than rows."""

    @cached_property
    def starts(self) -> Numbers:
        return starts_of(self.rows)

    @property
    def n(self) -> int:
        return len(self.starts) - 1

    def documents(self, which: Numbers) -> Documents:
        """The documents of these numbers, in their order. Only their rows are read."""
        begins = self.starts[which]
        entries = self.starts[which + 1] - begins
        starts = np.concatenate([[0], np.cumsum(entries)]).astype(np.intp)
        places = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], entries)
        chosen = self.rows[places]
        return Documents(starts, chosen[:, WORD].astype(np.intp), chosen[:, COUNT].copy())
