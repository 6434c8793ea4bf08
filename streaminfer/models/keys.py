"""Keys of events: what may be one, and the codes that stand for them in a matrix of events."""

from __future__ import annotations

from typing import Final

MAX_BYTES: Final = 256
"""Of a key in UTF-8."""
LARGEST: Final = 2**53
"""Beyond this a number of float64 is no certain whole number."""
RULE: Final = f"must be a text of 1 to {MAX_BYTES} bytes, or a whole number"


class Codes(dict[object, float]):
    """The code of every key met so far, counted from 0; a whole number is the key that its decimal text is.

    One is made for each matrix of events, so that codes are small and forgotten with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[bytes] = []

    def __missing__(self, value: object) -> float:
        """The code of a key that is new; raises ValueError or TypeError where it can be none."""
        text = str(value) if type(value) is int else value
        if type(value) is float:
            if not (value.is_integer() and abs(value) <= LARGEST):
                raise ValueError(RULE)
            text = str(int(value))
        if type(text) is not str:
            raise TypeError(RULE)
        code = self._code(text)
        if type(value) is str:  # True, 1 and 1.0 are one to a dictionary, so only texts are remembered
            self[value] = code
        return code

    def _code(self, text: str) -> float:
        found = self.get(text)
        if found is not None:
            return found
        label = text.encode()
        if not 1 <= len(label) <= MAX_BYTES:
            raise ValueError(RULE)
        self.labels.append(label)
        self[text] = float(len(self.labels) - 1)
        return self[text]
