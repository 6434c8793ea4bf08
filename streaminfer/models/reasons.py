"""What is said of a value that is refused: the rule that it breaks and the value itself, short and printable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

MOST_CHARACTERS: Final = 40
"""Characters of a value in a reason."""
_LARGEST: Final = 10**MOST_CHARACTERS
_WHOLE: Final = 1e15
_NEITHER: Final = "expected "
"""What the rule of a value of a wrong type begins with."""
_ROW: Final = "row"
_HEADER: Final = "header_fields"


def shown(value: object) -> str:
    """A value for a reader, whatever it is: bounded, on one line, with nothing that a terminal would act upon."""
    match value:
        case str():
            text = repr(value[:MOST_CHARACTERS]) + ("..." if len(value) > MOST_CHARACTERS else "")
        case bytes():
            text = _counted(len(value), "byte")
        case None | bool():
            text = repr(value)
        case int():
            text = str(value) if abs(value) < _LARGEST else f"a whole number of more than {MOST_CHARACTERS} digits"
        case float():
            text = str(int(value)) if value.is_integer() and abs(value) < _WHOLE else repr(value)
        case Mapping():
            text = f"an object of {_counted(len(value), 'field')}"
        case Sequence():
            text = f"a list of {_counted(len(value), 'value')}"
        case _:
            text = f"a value of type {type(value).__name__[:MOST_CHARACTERS]}"
    return text


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def broken(rule: str, value: object, expected: str | None = None) -> tuple[str, str]:
    """The rule that a value breaks, and the value if that says more than the rule does.

    `expected` is what a number of the field is called: a value that is not a number does not even come so far.
    """
    wanted = f"{_NEITHER}{expected}" if expected is not None else rule
    if value is None or (isinstance(value, str) and not value):
        return f"is {'null' if value is None else 'empty'}, {wanted}", ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return rule if is_number else wanted, shown(value)


def with_value(rule: str, got: str) -> str:
    """A rule and the value that breaks it as one text; `gist` takes the value away again."""
    if not got:
        return rule
    return f"{rule}, got {got}" if rule.startswith(_NEITHER) else f"{rule} (got {got})"


def ragged(row: Sequence[str], n_columns: int) -> Any:
    """What is sent for a row that does not have as many values as the header has names. It cannot be taken for an
    event, has all values, and both numbers for `not_an_object`."""
    return [{_ROW: list(row), _HEADER: n_columns}]


def not_an_object(event: object) -> str:
    """Why something that has no named fields is not an event."""
    if isinstance(event, list) and len(event) == 1 and isinstance(event[0], Mapping):
        row, columns = event[0].get(_ROW), event[0].get(_HEADER)
        if isinstance(row, list) and type(columns) is int and len(event[0]) == 2:
            return f"row has {_counted(len(row), 'field')}, the header has {shown(columns)}"
    return with_value("an event must be an object with named fields", shown(event))
