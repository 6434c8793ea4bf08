"""Documents with the words they are made of: what a model of words reads of events."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.keys import ordered
from streaminfer.models.lda.bags import Bags
from streaminfer.models.lda.documents import Documents, Numbers


class Bagged(NamedTuple):
    """The different words of some documents in the order of their bytes, and the documents with words numbered so.

    Entries of a document are in the order of the words: what is computed of them depends on the documents alone.
    """

    labels: tuple[bytes, ...]
    documents: Documents

    def only(self, which: NDArray[Any]) -> Bagged:
        """The documents with these numbers, in their order, or those whose flags (n,) are set; with their own words."""
        chosen = self.documents.select(which)
        labels, words = ordered(self.labels, chosen.words)
        return Bagged(labels, chosen._replace(words=words))


def bagged(bags: Bags, which: Numbers) -> Bagged:
    """The documents of these numbers, in their order."""
    starts = np.concatenate([[0], np.array(bags.ends, dtype=np.intp)]).astype(np.intp)
    words, counts = np.array(bags.words, dtype=np.intp), np.array(bags.counts, dtype=np.float64)
    gathered = Documents(starts, words, counts)
    chosen = gathered if len(which) == gathered.n else gathered.select(which)
    labels, ranked = ordered(bags.labels, chosen.words)
    entries = np.lexsort((ranked, chosen.owners))
    return Bagged(labels, Documents(chosen.starts, ranked[entries], chosen.counts[entries]))
