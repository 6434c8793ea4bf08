"""Documents as they come in: what may be one, and the words of many gathered in a few flat arrays."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

MAX_BYTES: Final = 256
"""Bytes of a word in UTF-8."""
MOST_WORDS: Final = 100_000
"""Different words of one document, at most."""
LARGEST: Final = 2**53
"""Counts above this are no longer exact in float64."""
PASSED: Final = -1
"""The code of a word that a fixed vocabulary does not have."""


class BadDocument(ValueError):
    """Not a document; its text is the rule that is broken, and `value` is what breaks it."""

    def __init__(self, rule: str, value: object) -> None:
        super().__init__(rule)
        self.value = value


def word_label(word: str) -> bytes:
    """A word in UTF-8; raises BadDocument if it can be none."""
    try:
        label = word.encode()
    except UnicodeEncodeError as error:
        raise BadDocument("every word must be a text in UTF-8", word) from error
    if not 1 <= len(label) <= MAX_BYTES:
        raise BadDocument(f"every word must have 1 to {MAX_BYTES} bytes in UTF-8", word)
    return label


def counted(value: object) -> Mapping[str, Any]:
    """How often each word is in a document, as it stands in an event; raises BadDocument if that is none."""
    if isinstance(value, list | tuple):
        if not set(map(type, value)) <= {str}:
            other = next(each for each in value if type(each) is not str)
            raise BadDocument("a list of words must have texts only", other)
        return Counter(value)
    if not isinstance(value, Mapping):
        raise BadDocument("must be a list of words, or an object of words with their counts", value)
    for word, count in value.items():
        if type(word) is not str:
            raise BadDocument("a list of words must have texts only", word)
        if type(count) not in {int, float} or not 1 <= count <= LARGEST or count != int(count):
            raise BadDocument("every word's count must be a whole number from 1 to 2^53", count)
    return value


class Bags:
    """Gathers the documents of one check of events: `bags[value]` takes one in and gives its number.

    Words get codes as they are met, so one is made for each check and forgotten with it. With `known` words all others
    are passed over.
    """

    def __init__(self, known: frozenset[str] | None = None, most: int = MOST_WORDS, longest: int | None = None) -> None:
        """`most` is how many different words a document may have, `longest` how many in all."""
        self._known, self._most, self._longest = known, most, longest
        self._codes: dict[str, int] = {}
        self.labels: list[bytes] = []
        self.ends, self.words, self.counts = array("q"), array("q"), array("d")

    def __getitem__(self, value: object) -> int:
        """The number of a document that is taken in; raises BadDocument if it is none, and keeps nothing of it."""
        found = counted(value)
        codes = [self._code(word) for word in found]
        entries = [(code, float(count)) for code, count in zip(codes, found.values(), strict=True) if code != PASSED]
        if len(entries) > self._most:
            raise BadDocument(f"must have at most {self._most} different words", found)
        if self._longest is not None and sum(count for _, count in entries) > self._longest:
            raise BadDocument(f"must have at most {self._longest} words", found)
        self.words.extend(code for code, _ in entries)
        self.counts.extend(count for _, count in entries)
        self.ends.append(len(self.words))
        return len(self.ends) - 1

    def _code(self, word: str) -> int:
        code = self._codes.get(word)
        if code is None:
            label = word_label(word)
            if self._known is not None and word not in self._known:
                code = PASSED
            else:
                code = len(self.labels)
                self.labels.append(label)
            self._codes[word] = code
        return code
