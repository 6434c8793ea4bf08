"""Documents with the words they are made of: what a model of words reads of events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streaminfer.models.bags import Bags
from streaminfer.models.documents import Documents, Numbers


class Bagged(NamedTuple):
    """The different words of some documents in the order of their bytes, and the documents with words numbered so.

    Entries of a document are in the order of the words: what is computed of them depends on the documents alone.
    """

    labels: list[bytes]
    documents: Documents


def bagged(bags: Bags, which: Numbers) -> Bagged:
    """The documents of these numbers, in their order."""
    starts = np.concatenate([[0], np.array(bags.ends, dtype=np.intp)]).astype(np.intp)
    words, counts = np.array(bags.words, dtype=np.intp), np.array(bags.counts, dtype=np.float64)
    present, chosen = Documents(starts, words, counts).select(which).compact()
    labels = [bags.labels[code] for code in present.tolist()]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    ranked = rank[chosen.words]
    entries = np.lexsort((ranked, chosen.owners))
    return Bagged([labels[i] for i in order], Documents(chosen.starts, ranked[entries], chosen.counts[entries]))


def part(whole: Bagged, begin: int, end: int) -> Bagged:
    """The documents from one number to another, with their own words."""
    present, chosen = whole.documents.select(np.arange(begin, end)).compact()
    return Bagged([whole.labels[word] for word in present.tolist()], chosen)
