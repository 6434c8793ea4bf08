"""Keys and categories of events: what may be one, which keys some events have, and the codes of categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.intp]

MAX_BYTES: Final = 256
"""Bytes of a key in UTF-8."""
LARGEST: Final = 2**53
"""Beyond this a number of float64 is not certain to be whole."""
WHOLE_NUMBER: Final = len(str(-LARGEST))
"""Bytes of the longest key that is a number of float64."""
RULE: Final = f"must be a text of 1 to {MAX_BYTES} bytes, or a whole number"


def label_of(value: object) -> bytes:
    """The key that a value is, in UTF-8; raises ValueError or TypeError if it cannot be one.

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
        """The code of a number; raises KeyError, ValueError or TypeError if it is not a category."""
        if type(value) is str:
            raise KeyError(value)
        return self[text_of(value)]


class Keys(NamedTuple):
    """The keys of some events: the different ones in the order of their bytes, and which of them each event has."""

    labels: tuple[bytes, ...]
    groups: Numbers
    """(n,)"""

    def only(self, which: NDArray[Any]) -> Keys:
        """The keys of the events with these numbers, in their order; or of those whose flags (n,) are set."""
        return Keys(*ordered(self.labels, self.groups[which]))


def joined(parts: Sequence[Keys]) -> Keys:
    """The keys of several sets of events, one after the other."""
    codes: dict[bytes, int] = {}
    groups = [_codes(part.labels, codes)[part.groups] for part in parts]
    return Keys(*ordered(list(codes), np.concatenate(groups)))


def _codes(labels: Sequence[bytes], codes: dict[bytes, int]) -> Numbers:
    return np.array([codes.setdefault(label, len(codes)) for label in labels], dtype=np.intp)


def ordered(labels: Sequence[bytes], codes: Numbers) -> tuple[tuple[bytes, ...], Numbers]:
    """The labels that have a code here in the order of their bytes, and the place of each code's label among them."""
    present = np.flatnonzero(np.bincount(codes, minlength=len(labels)))
    order = sorted(present.tolist(), key=labels.__getitem__)
    rank = np.empty(len(labels), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return tuple(labels[code] for code in order), rank[codes]


class Codes(dict[object, int]):
    """The code of every key met so far, counted from 0. One is made for each check of events."""

    def __init__(self) -> None:
        super().__init__()
        self._labels: list[bytes] = []

    def __missing__(self, value: object) -> int:
        """The code of a value that was not met yet; raises ValueError or TypeError if it cannot be a key."""
        label = label_of(value)
        code = self.get(label)
        if code is None:
            code = len(self._labels)
            self._labels.append(label)
            self[label] = code
        if type(value) is str:  # True, 1 and 1.0 are one to a dictionary, so of numbers only the texts are remembered
            self[value] = code
        return code

    def keys_of(self, codes: Numbers) -> Keys:
        """The keys of events with these codes (n,)."""
        return Keys(*ordered(self._labels, codes))
