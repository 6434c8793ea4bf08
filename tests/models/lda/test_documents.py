"""Bags of words against plain lists of mappings."""

from __future__ import annotations

import numpy as np

from streaminfer.models.lda.documents import Documents

BAGS = [{3: 2.0, 7: 1.0}, {}, {7: 4.0}, {1: 1.0, 3: 1.0, 9: 0.5}]


def bags(documents: Documents) -> list[dict[int, float]]:
    """Back to mappings."""
    cuts = documents.starts[1:-1]
    pairs = zip(np.split(documents.words, cuts), np.split(documents.counts, cuts), strict=True)
    return [dict(zip(words.tolist(), counts.tolist(), strict=True)) for words, counts in pairs]


def test_what_goes_in_comes_out() -> None:
    documents = Documents.of(BAGS)
    assert bags(documents) == BAGS
    assert documents.n == 4
    assert documents.entries.tolist() == [2, 0, 1, 3]
    assert documents.lengths.tolist() == [3.0, 0.0, 4.0, 2.5]
    assert documents.owners.tolist() == [0, 0, 2, 3, 3, 3]


def test_parts_are_those_of_the_list() -> None:
    documents = Documents.of(BAGS)
    assert bags(documents.select(np.array([3, 0, 1]))) == [BAGS[3], BAGS[0], BAGS[1]]
    assert bags(documents.select(np.array([False, True, True, False]))) == BAGS[1:3]
    assert [bags(part) for part in documents.split(3)] == [BAGS[:3], BAGS[3:]]
    assert Documents.of([]).split(3) == []


def test_words_are_numbered_by_those_that_occur() -> None:
    words, compact = Documents.of(BAGS).compact()
    assert words.tolist() == [1, 3, 7, 9]
    assert [{int(words[w]): c for w, c in bag.items()} for bag in bags(compact)] == BAGS
    assert Documents.of([{}]).compact()[0].tolist() == []
