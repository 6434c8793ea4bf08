"""What a target reads of events: their numbers, or the documents that they are. Only here the two are told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.models.events import Events
from streaminfer.models.lda.documents import Numbers
from streaminfer.models.model import Matrix
from streaminfer.models.targets import corpus
from streaminfer.models.targets.corpus import Corpus
from streaminfer.models.targets.density import Density


class Reading(NamedTuple):
    """One way."""

    rows: Callable[[Any, Events], Matrix]
    """What a target needs of events: rows (m, columns), those of an event one after the other."""
    lengths: Callable[[Matrix], Numbers]
    """How many rows each event has, (n,)."""
    density: Callable[[Any, Matrix, float], Density]
    """A target with rows, and the power of its prior."""


def _rows_of_numbers(target: Any, events: Events) -> Matrix:
    return np.asarray(target.rows(events.numbers), dtype=np.float64)


def _one_each(rows: Matrix) -> Numbers:
    return np.ones(len(rows), dtype=np.intp)


def _rows_of_documents(target: Any, events: Events) -> Matrix:
    return np.asarray(target.rows(events.bagged), dtype=np.float64)


NUMBERS: Final = Reading(_rows_of_numbers, _one_each, Density)
DOCUMENTS: Final = Reading(_rows_of_documents, corpus.lengths_of, Corpus)


def reading_of(target: Any) -> Reading:
    """How a target reads events: as numbers unless it says that it `reads_documents`."""
    return DOCUMENTS if getattr(target, "reads_documents", False) else NUMBERS
