"""Events as a model reads them: the fields it declares, and rows checked and turned into one matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models import bags, keys, reasons, times

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
"""What a value of a wrong type is told that was expected, where the rule is about something else."""
TRUTHS: Final[Mapping[str, bool]] = {
    text: value for value in (True, False) for text in (str(value), str(value).lower(), str(value).upper())
}
"""The texts that are true or false where a field is 0 or 1."""
AHEAD: Final = f"must not be more than {times.AHEAD_S:g} seconds after the record's timestamp"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an event: its name, what kind of value it holds and, for a category, the names.

    `path` is where the value is in an event, one name for each object on the way; left out, it is the field's name.
    Of tokens, `categories` are the words that count, all where there are none, and `most` is how many different ones a
    document may have.
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    most: int = bags.MOST_WORDS
    codes: Mapping[Any, float] | bags.Bags = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", self._new_codes())
        object.__setattr__(self, "path", self.path or (self.name,))

    def _new_codes(self) -> Mapping[Any, float] | bags.Bags:
        if self.kind == "tokens":
            return bags.Bags(frozenset(self.categories) or None, self.most)
        return keys.Codes() if self.kind == "key" else keys.Names(self.categories)

    def emptied(self) -> Field:
        """The same field with no document taken in."""
        made = copy(self)
        if isinstance(self.codes, bags.Bags):
            object.__setattr__(made, "codes", self.codes.fresh())
        return made

    @property
    def is_elsewhere(self) -> bool:
        """Whether an event has it under another name than its own."""
        return self.path != (self.name,)

    @property
    def label(self) -> str:
        """Its name for a reader of errors, with the place where it was looked for."""
        return f"{self.name} (from {'.'.join(self.path)})" if self.is_elsewhere else self.name

    @property
    def is_text(self) -> bool:
        return self.kind in {"category", "key"}

    @property
    def is_coded(self) -> bool:
        """Whether the matrix has a number that stands for a value of it."""
        return self.is_text or self.kind == "tokens"


def anew(fields: Sequence[Field]) -> tuple[tuple[Field, ...], list[bytes]]:
    """The fields for one more matrix, and the keys of that matrix: they come in as codes are given to them."""
    made = tuple(
        replace(each) if each.kind == "key" else each.emptied() if each.kind == "tokens" else each for each in fields
    )
    labels = next((each.codes.labels for each in made if isinstance(each.codes, keys.Codes)), [])
    return made, labels


def bags_of(fields: Sequence[Field]) -> bags.Bags | None:
    """Where the documents of a matrix are; None where no field has any."""
    return next((each.codes for each in fields if isinstance(each.codes, bags.Bags)), None)


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


class Checked(NamedTuple):
    """The good rows as a matrix (n, fields), in their order, and the others with their reasons."""

    events: NDArray[np.float64]
    rejected: list[Rejected]


def check(fields: Sequence[Field], rows: Sequence[object]) -> Checked:
    """Turns rows (mappings with the fields at their paths) into a matrix; a category or key becomes its code."""
    try:
        events = _numbers(fields, rows)
        if events is None:
            events = _whole(fields, [_found(field.path, rows) for field in fields], len(rows))
    except (TypeError, KeyError):
        events = None
    return Checked(events, []) if events is not None else _check_each(fields, rows, _check_row)


def check_values(fields: Sequence[Field], rows: Sequence[Sequence[object]]) -> Checked:
    """The same of rows whose values stand in the order of the fields."""
    events = _whole(fields, [[row[j] for row in rows] for j in range(len(fields))], len(rows))
    return Checked(events, []) if events is not None else _check_each(fields, rows, _check_value_row)


def check_matrix(fields: Sequence[Field], matrix: NDArray[np.float64]) -> Checked:
    """The same of numbers (n, fields), for fields of which none is a category; gives the same reasons."""
    if {field.kind for field in fields} == {"number"}:  # as most are: one look at all of them
        faults = ~(np.abs(matrix) <= LARGEST)
    else:
        faults = np.stack([~_in_domain(f, matrix[:, j]) for j, f in enumerate(fields)], axis=1)
    bad = faults.any(axis=1)
    coded = _coded(fields, matrix, np.flatnonzero(~bad))
    if not bad.any():
        return Checked(coded, [])
    firsts = zip(np.flatnonzero(bad).tolist(), faults[bad].argmax(axis=1).tolist(), strict=True)
    rejected = [Rejected(i, fields[j].label, *_rule(fields[j], float(matrix[i, j]))) for i, j in firsts]
    return Checked(coded[~bad], rejected)


def _coded(fields: Sequence[Field], matrix: NDArray[np.float64], good: NDArray[np.intp]) -> NDArray[np.float64]:
    """The matrix with codes in the place of keys, in its good rows."""
    for j, each in enumerate(fields):
        if each.kind == "key":
            matrix = matrix.copy()
            found, places = np.unique(matrix[good, j], return_inverse=True)
            matrix[good, j] = np.array([each.codes[key] for key in found.tolist()], dtype=np.float64)[places]
    return matrix


def check_ahead(fields: Sequence[Field], checked: Checked, stamps: NDArray[np.float64]) -> Checked:
    """Rejects the rows, too, whose time is too far ahead of their record's timestamp.

    `stamps` has one for each row that was checked, good or not, in seconds since 1970. Without a time all stays.
    """
    column = next((j for j, field in enumerate(fields) if field.kind == "time"), None)
    if column is None or not len(checked.events):
        return checked
    rows = np.delete(np.arange(len(stamps)), [each.row for each in checked.rejected])
    late = checked.events[:, column] > stamps[rows] + times.AHEAD_S
    if not late.any():
        return checked
    rejected = [Rejected(row, fields[column].label, AHEAD) for row in rows[late].tolist()]
    return Checked(checked.events[~late], sorted([*checked.rejected, *rejected]))


def _numbers(fields: Sequence[Field], rows: Sequence[Any]) -> NDArray[np.float64] | None:
    """The matrix of plain numbers at the top of every row, as most are: by row, where `_whole` goes by column."""
    if not rows or len(fields) < 2 or not all(each.kind == "number" and len(each.path) == 1 for each in fields):
        return None
    values = list(chain.from_iterable(map(itemgetter(*(each.path[0] for each in fields)), rows)))
    if not set(map(type, values)) <= {int, float}:
        return None
    try:
        matrix = np.array(values, dtype=np.float64).reshape(len(rows), len(fields))
    except OverflowError:
        return None
    return matrix if (np.abs(matrix) <= LARGEST).all() else None


def _whole(fields: Sequence[Field], columns: Sequence[Sequence[object]], n_rows: int) -> NDArray[np.float64] | None:
    """The matrix, where every value is right."""
    if n_rows == 0:
        return np.empty((0, len(fields)))
    if not fields:
        return None  # nothing to look at but whether they are rows at all
    try:
        made = [_column(field, values) for field, values in zip(fields, columns, strict=True)]
    except (TypeError, ValueError, KeyError, OverflowError):
        return None
    good = all(_in_domain(f, column).all() for f, column in zip(fields, made, strict=True))
    return np.stack(made, axis=1) if good else None


def _found(path: tuple[str, ...], rows: Sequence[Any]) -> Sequence[Any]:
    values: Sequence[Any] = rows
    for name in path:
        values = [value[name] for value in values]
    return values


def _column(field: Field, values: Sequence[Any]) -> NDArray[np.float64]:
    """The whole column at once; raises where any value is of a wrong type."""
    if field.is_coded:
        codes = field.codes
        return np.array([codes[value] for value in values], dtype=np.float64)
    if field.kind == "time":
        values = [times.parse(value) if type(value) is str else value for value in values]
    kinds = set(map(type, values))
    if field.kind == "binary" and not kinds <= {int, float}:
        values = [truth(value) for value in values]
        kinds = set(map(type, values))
    if not kinds <= {int, float}:
        raise TypeError(field.name)
    return np.array(values, dtype=np.float64)


def truth(value: object) -> object:
    """1 or 0 for what is true or false; anything else as it is."""
    found = TRUTHS.get(value) if type(value) is str else value
    return int(found) if type(found) is bool else value


@np.errstate(invalid="ignore")
def _in_domain(field: Field, column: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of a whole column; bytes of others may hold a NaN that signals, of which numpy would warn."""
    good: NDArray[np.bool_]
    match field.kind:
        case "number":
            good = np.abs(column) <= LARGEST
        case "positive":
            good = (column > 0) & (column <= LARGEST)
        case "count":
            good = (column >= 0) & (column <= LARGEST_COUNT) & (column == np.floor(column))
        case "binary":
            good = (column == 0) | (column == 1)
        case "category" | "tokens":
            good = column >= 0
        case "key":
            good = (np.abs(column) <= keys.LARGEST) & (column == np.floor(column))
        case "time":
            good = (column >= times.EARLIEST) & (column <= times.LATEST)
    return good


Fault = tuple[str, str, str]
"""A field's label, the rule it breaks, and the value that does."""


def _check_each(
    fields: Sequence[Field],
    rows: Sequence[Any],
    check_row: Callable[[Sequence[Field], Any], tuple[list[float], Fault | None]],
) -> Checked:
    """Row by row: slower, and only where the fast way found something wrong."""
    events, rejected = [], []
    for i, row in enumerate(rows):
        values, fault = check_row(fields, row)
        if fault is None:
            events.append(values)
        else:
            rejected.append(Rejected(i, *fault))
    matrix = np.array(events, dtype=np.float64).reshape(len(events), len(fields))
    return Checked(matrix, rejected)


def _check_row(fields: Sequence[Field], row: object) -> tuple[list[float], Fault | None]:
    if not isinstance(row, Mapping):
        return [], ("", reasons.not_an_object(row), "")
    found = []
    for wanted in fields:
        value, fault = look_up(row, wanted.path)
        if fault is not None:
            return [], (wanted.label, fault, "")
        number = _number(wanted, value)
        if number is None:
            return [], (wanted.label, *_rule(wanted, value))
        found.append(number)
    return found, None


def _check_value_row(fields: Sequence[Field], row: Sequence[object]) -> tuple[list[float], Fault | None]:
    found = []
    for wanted, value in zip(fields, row, strict=True):
        number = _number(wanted, value)
        if number is None:
            return [], (wanted.label, *_rule(wanted, value))
        found.append(number)
    return found, None


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


def _rule(field: Field, value: object) -> tuple[str, str]:
    """The rule that a value breaks, and the value, or the part of it that does."""
    rule = RULES[field.kind]
    if isinstance(field.codes, bags.Bags):
        try:
            field.codes.fresh()[value]
        except bags.BadDocument as error:
            rule = str(error)
            if error.value is not value:
                return rule, reasons.shown(error.value)
    return reasons.broken(rule, value, EXPECTED.get(field.kind))


def _code(field: Field, value: object) -> float | None:
    """The code of a category, key or document."""
    try:
        return field.codes[value]
    except (KeyError, ValueError, TypeError):
        return None


def _number(field: Field, value: object) -> float | None:
    """The value as a float inside the field's domain, or None. Only where a field is 0 or 1 is a boolean a number."""
    if field.is_coded:
        return _code(field, value)
    if field.kind == "binary":
        value = truth(value)
    try:
        if field.kind == "time" and isinstance(value, str):
            value = times.parse(value)
    except ValueError:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number) or not _in_domain(field, np.array([number]))[0]:
        return None
    return number
