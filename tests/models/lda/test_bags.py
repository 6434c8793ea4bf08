"""Documents of events: what may be one, with exact reasons, and how they become arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models.checks import check
from streaminfer.models.events import Field, Rejected
from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.model import Lda


def taken(rows: list[Any], *words: str, most: int = 100_000) -> tuple[Bagged, list[Rejected]]:
    events, rejected = check([Field("words", "tokens", words, most=most)], rows)
    assert events.numbers.shape == (len(rows) - len(rejected), 0), "no number stands for a document"
    return events.bagged, list(rejected)


def dense(found: Bagged) -> list[dict[str, float]]:
    documents = found.documents
    spans = zip(documents.starts[:-1].tolist(), documents.starts[1:].tolist(), strict=True)
    return [
        {found.labels[documents.words[i]].decode(): float(documents.counts[i]) for i in range(*span)} for span in spans
    ]


def test_lists_and_objects_are_bags_of_words() -> None:
    rows = [{"words": ["b", "a", "b"]}, {"words": {"ö": 2, "a": 2**53}}, {"words": []}, {"words": {}}]
    found, rejected = taken(rows)
    assert rejected == []
    assert found.labels == (b"a", b"b", "ö".encode())
    assert dense(found) == [{"a": 1, "b": 2}, {"a": 2.0**53, "ö": 2}, {}, {}]


def test_the_order_of_words_changes_nothing() -> None:
    one, _ = taken([{"words": ["c", "a", "b", "a"]}, {"words": ["z", "b"]}])
    other, _ = taken([{"words": {"a": 2, "b": 1.0, "c": 1}}, {"words": ["b", "z"]}])
    assert one.labels == other.labels
    for a, b in zip(one.documents, other.documents, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("some text", "must be a list of words, or an object of words with their counts"),
        (None, "must be a list of words, or an object of words with their counts"),
        (7, "must be a list of words, or an object of words with their counts"),
        (["a", 2], "a list of words must have texts only"),
        ([["a"]], "a list of words must have texts only"),
        (["a", True], "a list of words must have texts only"),
        ({"a": 0}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": -1}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": 1.5}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": True}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": "1"}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": 2**53 + 1}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": 10**400}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": float("nan")}, "every word's count must be a whole number from 1 to 2^53"),
        ({"a": float("inf")}, "every word's count must be a whole number from 1 to 2^53"),
        ([""], "every word must have 1 to 256 bytes in UTF-8"),
        (["ö" * 129], "every word must have 1 to 256 bytes in UTF-8"),
        (["\ud800"], "every word must be a text in UTF-8"),
    ],
)
def test_what_is_no_document_is_refused_with_the_rule(value: Any, reason: str) -> None:
    found, rejected = taken([{"words": ["good", "ö" * 128]}, {"words": value}, {"words": ["last"]}])
    (fault,) = rejected
    assert (fault.row, fault.field) == (1, "words")
    assert fault.reason.removeprefix("words: ").removeprefix("is null, ").startswith(reason)
    assert dense(found) == [{"good": 1, "ö" * 128: 1}, {"last": 1}], "the others are not touched"


def test_a_document_has_at_most_so_many_different_words() -> None:
    found, rejected = taken([{"words": list("aabb")}, {"words": list("abc")}], most=2)
    assert [each.reason for each in rejected] == [
        "words: must have at most 2 different words (got an object of 3 fields)"
    ]
    assert dense(found) == [{"a": 2, "b": 2}]


def test_other_words_than_those_of_a_vocabulary_are_passed_over_and_still_judged() -> None:
    rows = [{"words": ["a", "x", "b"]}, {"words": ["x", "y"]}, {"words": ["a", ""]}]
    found, rejected = taken(rows, "a", "b", "never")
    assert found.labels == (b"a", b"b")
    assert dense(found) == [{"a": 1, "b": 1}, {}]
    assert [each.row for each in rejected] == [2]


def test_documents_of_one_check_are_not_those_of_the_next() -> None:
    fields = [Field("words", "tokens", frozenset("ab"))]
    for word in "ab":
        assert dense(check(fields, [{"words": [word, "c"]}]).events.bagged) == [{word: 1}]


def test_some_documents_have_their_own_words() -> None:
    found, _ = taken([{"words": ["a", "b"]}, {"words": ["c", "b"]}, {"words": []}])
    for which in (np.array([1, 2]), np.array([False, True, True])):
        some = found.only(which)
        assert some.labels == (b"b", b"c")
        assert dense(some) == [{"b": 1, "c": 1}, {}]


def test_a_document_that_comes_with_a_bad_number_is_not_kept() -> None:
    fields = [Field("words", "tokens"), Field("x", "number")]
    found = check(fields, [{"words": ["a"], "x": 1}, {"words": ["b"], "x": "no"}, {"words": ["c"], "x": 2}])
    assert found.events.numbers.tolist() == [[1], [2]]
    assert found.events.bagged.labels == (b"a", b"c")
    assert dense(found.events.bagged) == [{"a": 1}, {"c": 1}]
    assert [each.row for each in found.rejected] == [1]


@pytest.mark.parametrize("topics", [2, 100, 1000])
def test_the_words_of_a_document_fit_into_an_increment(topics: int) -> None:
    from streaminfer.models.lda.bags import MAX_BYTES
    from streaminfer.models.lda.model import INCREMENT_BYTES, word_bytes

    most = Lda("w", topics, None, 1, 0, "mean", 0.1, 0.01).most_words
    assert 4 + most * word_bytes(topics, MAX_BYTES) <= INCREMENT_BYTES
    assert most == 100_000 or 4 + (most + 2) * word_bytes(topics, MAX_BYTES) > INCREMENT_BYTES
