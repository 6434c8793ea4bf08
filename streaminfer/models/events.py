"""Events as models read them: the fields that models declare, and values with what events hold of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models import keys, reasons, times
from streaminfer.models.keys import Keys
from streaminfer.models.lda import bags
from streaminfer.models.lda.bagged import Bagged

LARGEST: Final = 1e100
"""Beyond this a square would leave float64; such a value is refused, not absorbed."""

LARGEST_COUNT: Final = 2**53
"""Counts above this are no longer exact in float64."""

Kind = Literal["number", "positive", "count", "binary", "category", "key", "time", "tokens"]

RULES: Final[Mapping[Kind, str]] = {
    "number": f"must be a number of size at most {LARGEST:g}",
    "positive": f"must be a number above 0 and at most {LARGEST:g}",
    "count": "must be a whole number from 0 to 2^53",
    "binary": "must be 0 or 1, or true or false",
    "category": "must be one of the categories",
    "key": keys.RULE,
    "time": "must be a time such as 2024-05-01T12:00:00Z (without a zone it is UTC), or seconds since 1970, of the "
    "years 1 to 9999",
    "tokens": "must be a list of words, or an object of words with their counts",
}
EXPECTED: Final[Mapping[Kind, str]] = {"number": "a number"}
"""What is said to be expected if a value has a wrong type and the rule is about something else."""
TRUTHS: Final[Mapping[str, bool]] = {
    text: value for value in (True, False) for text in (str(value), str(value).lower(), str(value).upper())
}
"""The texts that are true or false if a field is 0 or 1."""
AHEAD: Final = f"must not be more than {times.AHEAD_S:g} seconds after the record's timestamp"


class _Declared(NamedTuple):
    """What a field says of itself."""

    name: str
    kind: Kind
    categories: tuple[str, ...] | frozenset[str]
    path: tuple[str, ...]
    most: int
    longest: int | None


class Field(_Declared):
    """One field of an event: its name, what kind of value it holds and, for a category, the names.

    `path` leads to the value in an event, one name for each object on the way; left out, it is the field's name. For
    tokens, `categories` are the words that count, all if there are none, and `most` is how many different ones a
    document may have, `longest` how many in all; None: any number.
    """

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        kind: Kind,
        categories: tuple[str, ...] | frozenset[str] = (),
        path: tuple[str, ...] = (),
        most: int = bags.MOST_WORDS,
        longest: int | None = None,
    ) -> Field:
        return super().__new__(cls, name, kind, categories, path or (name,), most, longest)

    @property
    def is_elsewhere(self) -> bool:
        """Whether an event has it under another name than its own."""
        return self.path != (self.name,)

    @property
    def label(self) -> str:
        """Its name for a reader of errors, with the path at which it was looked for."""
        return f"{self.name} (from {'.'.join(self.path)})" if self.is_elsewhere else self.name

    @property
    def is_text(self) -> bool:
        return self.kind in {"category", "key"}

    @property
    def is_number(self) -> bool:
        """Whether events have a column of numbers for it; a category is one by its code."""
        return self.kind not in {"key", "tokens"}


class Rejected(NamedTuple):
    """A row that cannot be absorbed: its place among the rows, the field's label, the rule it breaks, and by what."""

    row: int
    field: str
    rule: str
    got: str = ""

    @property
    def reason(self) -> str:
        told = reasons.with_value(self.rule, self.got)
        return f"{self.field}: {told}" if self.field else told


class Events(NamedTuple):
    """Events as models read them, each in the same place of every part. They are never changed."""

    numbers: NDArray[np.float64]
    """(n, fields), a column for each field but the key and documents, in their order."""
    keys: Keys | None = None
    """The keys, if one of the fields is the key."""
    documents: Bagged | None = None
    """The documents, if one of the fields is a document."""

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.numbers)

    @property
    def bagged(self) -> Bagged:
        """The documents, for a model that has some; raises TypeError otherwise."""
        if self.documents is None:
            raise TypeError("none of the fields of these events is a document")
        return self.documents

    def only(self, which: NDArray[Any]) -> Events:
        """The events with these numbers, in their order; or those whose flags (n,) are set."""
        return Events(
            self.numbers[which],
            None if self.keys is None else self.keys.only(which),
            None if self.documents is None else self.documents.only(which),
        )

    def parted(self) -> tuple[Events, NDArray[np.float64]]:
        """The events without their last column of numbers, and that column (n,)."""
        return self._replace(numbers=self.numbers[:, :-1]), self.numbers[:, -1]


class Checked(NamedTuple):
    """The good rows as events, in their order, and the others with their reasons."""

    events: Events
    rejected: tuple[Rejected, ...] = ()

    def places(self, n_rows: int) -> NDArray[np.intp]:
        """Which of the rows that were checked are good."""
        return np.delete(np.arange(n_rows), [each.row for each in self.rejected])


def truth(value: object) -> object:
    """1 or 0 for what is true or false; anything else as it is."""
    found = TRUTHS.get(value) if type(value) is str else value
    return int(found) if type(found) is bool else value


def look_up(row: Mapping[str, object], path: tuple[str, ...]) -> tuple[object, str | None]:
    """The value at the end of a path, or what is wrong on the way to it."""
    found: object = row
    for i, name in enumerate(path):
        if not isinstance(found, Mapping):
            return None, f"{'.'.join(path[:i])} must be an object"
        if name not in found:
            return None, "is missing" if i == len(path) - 1 else f"{'.'.join(path[: i + 1])} is missing"
        found = found[name]
    return found, None
