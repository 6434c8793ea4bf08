"""Why a number cannot be told. The caller makes a `measurement.unknown` of it."""

from __future__ import annotations


class Unknowable(ValueError):
    """Draws or scores from which a check learns nothing: a plain sentence says why, and a remedy what to do."""

    def __init__(self, sentence: str, remedy: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.remedy = sentence, remedy
