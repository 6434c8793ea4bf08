"""A fixed vocabulary: a list of words in a spec, or the name of a file that has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from streaminfer.models.lda.bags import MAX_BYTES, BadDocument, word_label
from streaminfer.models.options import Problem, Text

MOST: Final = 1_000_000
"""Words."""
FILE: Final = Text(r"[^\x00]{1,200}", "a list of words, or the name of a file, 1 to 200 characters")


def fault(words: Iterable[object]) -> tuple[int, str] | None:
    """The place of the first word that can be none, or stands twice, and why; None if all are right."""
    earlier = set()
    for i, word in enumerate(words):
        if not isinstance(word, str):
            return i, "must be a string (quote it)"
        try:
            word_label(word)
        except BadDocument as error:
            return i, str(error)
        if word in earlier:
            return i, "must not repeat an earlier word"
        if i >= MOST:
            return i, f"must be left out: a vocabulary has at most {MOST} words"
        earlier.add(word)
    return None


class Vocabulary:
    """The rule of the option: a list of different words, returned as a tuple, or a file's name."""

    def check(self, value: object, field: str, problems: list[Problem]) -> Any:
        if not isinstance(value, list | tuple):
            return FILE.check(value, field, problems)
        found = fault(value)
        if found is not None:
            problems.append(Problem(f"{field}[{found[0]}]", found[1], value[found[0]]))
        elif not value:
            problems.append(
                Problem(field, "must have one word or more; leave it out to learn words as they appear", value)
            )
        return tuple(value)

    def json_schema(self) -> dict[str, Any]:
        word = {"type": "string", "minLength": 1, "maxLength": MAX_BYTES}
        words = {"type": "array", "items": word, "minItems": 1, "maxItems": MOST, "uniqueItems": True}
        return {"oneOf": [FILE.json_schema(), words]}
