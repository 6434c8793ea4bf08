"""Keys and categories of events: what may be one, and the codes that stand for them in a matrix of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_BYTES: Final = 256
"""Of a key in UTF-8."""
LARGEST: Final = 2**53
"""Beyond this a number of float64 is no certain whole number."""
WHOLE_NUMBER: Final = len(str(-LARGEST))
"""Bytes of the longest key that is a number of float64."""
RULE: Final = f"must be a text of 1 to {MAX_BYTES} bytes, or a whole number"


def label_of(value: object) -> bytes:
    """The key that a value is, in UTF-8; raises ValueError or TypeError where it can be none.

    A whole number is the key that its decimal text is.
    """
    label = text_of(value).encode()
    if not 1 <= len(label) <= MAX_BYTES:
        raise ValueError(RULE)
    return label


def text_of(value: object) -> str:
    """A text as it is, a whole number as its decimal text; raises ValueError or TypeError at anything else."""
    if type(value) is int:
        return str(value)
    if type(value) is float:
        if not (value.is_integer() and abs(value) <= LARGEST):
            raise ValueError(RULE)
        return str(int(value))
    if type(value) is not str:
        raise TypeError(RULE)
    return value


class Names(dict[object, float]):
    """The code of every category. A whole number is the category that its decimal text is."""

    def __init__(self, categories: Sequence[str]) -> None:
        super().__init__((name, float(i)) for i, name in enumerate(categories))

    def __missing__(self, value: object) -> float:
        """The code of a number; raises KeyError, ValueError or TypeError where it is not a category."""
        if type(value) is str:
            raise KeyError(value)
        return self[text_of(value)]


class Codes(dict[object, float]):
    """The code of every key met so far, counted from 0.

    One is made for each matrix of events, so that codes are small and forgotten with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[bytes] = []

    def __missing__(self, value: object) -> float:
        """The code of a value that was not met yet; raises ValueError or TypeError where it can be no key."""
        label = label_of(value)
        code = self.get(label)
        if code is None:
            code = float(len(self.labels))
            self.labels.append(label)
            self[label] = code
        if type(value) is str:  # True, 1 and 1.0 are one to a dictionary, so of numbers only the texts are remembered
            self[value] = code
        return code
