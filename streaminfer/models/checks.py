"""Rows to events: every value is checked by the rule of its field, and a row that breaks one has the reason.

Nearly all values are right, and those are checked by the column. Only if something is wrong, it goes row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaminfer.models import keys, reasons, times
from streaminfer.models.events import (
    AHEAD,
    EXPECTED,
    LARGEST,
    LARGEST_COUNT,
    RULES,
    Checked,
    Events,
    Field,
    Rejected,
    look_up,
    truth,
)
from streaminfer.models.keys import Keys
from streaminfer.models.lda import bags
from streaminfer.models.lda.bagged import Bagged, bagged

Coder = Mapping[Any, float] | keys.Codes | bags.Bags | None
"""Gives the code of a category, key or document; None for a field that has no codes."""
Fault = tuple[str, str, str]
"""A field's label, the rule it breaks, and the value that does."""
CheckRow = Callable[[Sequence[Field], Sequence[Coder], Any], tuple[list[float], Fault | None]]


def check(fields: Sequence[Field], rows: Sequence[object]) -> Checked:
    """Checks rows, which are mappings with the fields at their paths."""
    try:
        numbers = _numbers(fields, rows)
        if numbers is not None:
            return Checked(Events(numbers))
        events = _whole(fields, [_found(field.path, rows) for field in fields], len(rows))
    except (TypeError, KeyError):
        events = None
    return Checked(events) if events is not None else _check_each(fields, rows, _check_row)


def check_values(fields: Sequence[Field], rows: Sequence[Sequence[object]]) -> Checked:
    """The same of rows whose values stand in the order of the fields."""
    events = _whole(fields, [[row[j] for row in rows] for j in range(len(fields))], len(rows))
    return Checked(events) if events is not None else _check_each(fields, rows, _check_value_row)


def check_matrix(fields: Sequence[Field], matrix: NDArray[np.float64]) -> Checked:
    """The same for numbers (n, fields), if no field is a category; gives the same reasons."""
    if {field.kind for field in fields} == {"number"}:  # as most are: one look at all of them
        faults = ~(np.abs(matrix) <= LARGEST)
    else:
        faults = np.stack([~_in_domain(f, matrix[:, j]) for j, f in enumerate(fields)], axis=1)
    bad = faults.any(axis=1)
    good = matrix[~bad] if bad.any() else matrix
    firsts = zip(np.flatnonzero(bad).tolist(), faults[bad].argmax(axis=1).tolist(), strict=True)
    rejected = (Rejected(i, fields[j].label, *_rule(fields[j], float(matrix[i, j]))) for i, j in firsts)
    return Checked(_without_key(fields, good), tuple(rejected))


def _without_key(fields: Sequence[Field], matrix: NDArray[np.float64]) -> Events:
    """The events of good rows; their key is apart from their numbers."""
    at = next((j for j, field in enumerate(fields) if field.kind == "key"), None)
    if at is None:
        return Events(matrix)
    found, places = np.unique(matrix[:, at], return_inverse=True)
    codes = keys.Codes()
    groups = np.array([codes[key] for key in found.tolist()], dtype=np.intp)[places]
    return Events(np.delete(matrix, at, axis=1), codes.keys_of(groups))


def check_ahead(fields: Sequence[Field], checked: Checked, stamps: NDArray[np.float64]) -> Checked:
    """Rejects the rows, too, whose time is too far ahead of their record's timestamp.

    `stamps` has one for each row that was checked, good or not, in seconds since 1970. Without a time all stays.
    """
    events, numeric = checked.events, [field for field in fields if field.is_number]
    column = next((j for j, field in enumerate(numeric) if field.kind == "time"), None)
    if column is None or not events.n:
        return checked
    rows = checked.places(len(stamps))
    late = events.numbers[:, column] > stamps[rows] + times.AHEAD_S
    if not late.any():
        return checked
    rejected = [Rejected(row, numeric[column].label, AHEAD) for row in rows[late].tolist()]
    return Checked(events.only(~late), tuple(sorted([*checked.rejected, *rejected])))


def _numbers(fields: Sequence[Field], rows: Sequence[Any]) -> NDArray[np.float64] | None:
    """The matrix of plain numbers at the top of every row, as most are: by row, while `_whole` goes by column."""
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


def _whole(fields: Sequence[Field], columns: Sequence[Sequence[object]], n_rows: int) -> Events | None:
    """The events, if every value is right."""
    coders = _coders(fields)
    if n_rows == 0:
        return _events(fields, coders, [[] for _ in fields], 0)
    if not fields:
        return None  # nothing to look at but whether they are rows at all
    try:
        made = [_column(*each) for each in zip(fields, coders, columns, strict=True)]
    except (TypeError, ValueError, KeyError, OverflowError):
        return None
    plain = ((f, column) for f, coder, column in zip(fields, coders, made, strict=True) if coder is None)
    good = all(_in_domain(f, column).all() for f, column in plain)
    return _events(fields, coders, made, n_rows) if good else None


def _events(fields: Sequence[Field], coders: Sequence[Coder], columns: Sequence[Any], n_rows: int) -> Events:
    """The events of columns, each with a good value for each row: a number, or what the field's coder gave for it."""
    numeric = [column for field, column in zip(fields, columns, strict=True) if field.is_number]
    numbers = np.stack(numeric, axis=1, dtype=np.float64) if numeric else np.empty((n_rows, 0))
    found: Keys | None = None
    documents: Bagged | None = None
    for coder, column in zip(coders, columns, strict=True):
        if isinstance(coder, keys.Codes):
            found = coder.keys_of(np.asarray(column, dtype=np.intp))
        elif isinstance(coder, bags.Bags):
            documents = bagged(coder, np.asarray(column, dtype=np.intp))
    return Events(numbers, found, documents)


def _coders(fields: Sequence[Field]) -> list[Coder]:
    """The coders of one check: those of keys and documents gather what they meet."""
    return [_coder(field) for field in fields]


def _coder(field: Field) -> Coder:
    match field.kind:
        case "category":
            return _names(tuple(field.categories))
        case "key":
            return keys.Codes()
        case "tokens":
            return bags.Bags(frozenset(field.categories) or None, field.most, field.longest)
    return None


@lru_cache(maxsize=64)
def _names(categories: tuple[str, ...]) -> keys.Names:
    return keys.Names(categories)


def _found(path: tuple[str, ...], rows: Sequence[Any]) -> Sequence[Any]:
    values: Sequence[Any] = rows
    for name in path:
        values = [value[name] for value in values]
    return values


def _column(field: Field, coder: Coder, values: Sequence[Any]) -> Any:
    """The whole column at once; raises if any value has a wrong type."""
    if coder is not None:
        return [coder[value] for value in values]
    if field.kind == "time":
        values = [times.parse(value) if type(value) is str else value for value in values]
    kinds = set(map(type, values))
    if field.kind == "binary" and not kinds <= {int, float}:
        values = [truth(value) for value in values]
        kinds = set(map(type, values))
    if not kinds <= {int, float}:
        raise TypeError(field.name)
    return np.array(values, dtype=np.float64)


@np.errstate(invalid="ignore")
def _in_domain(field: Field, column: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which values of a column are in the domain; bytes of others may hold a NaN that signals, and numpy would warn of
    it."""
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


def _check_each(fields: Sequence[Field], rows: Sequence[Any], check_row: CheckRow) -> Checked:
    """Row by row: slower, and only if the fast way found something wrong."""
    coders, good, rejected = _coders(fields), [], []
    for i, row in enumerate(rows):
        values, fault = check_row(fields, coders, row)
        if fault is None:
            good.append(values)
        else:
            rejected.append(Rejected(i, *fault))
    columns = [[row[j] for row in good] for j in range(len(fields))]
    return Checked(_events(fields, coders, columns, len(good)), tuple(rejected))


def _check_row(fields: Sequence[Field], coders: Sequence[Coder], row: object) -> tuple[list[float], Fault | None]:
    if not isinstance(row, Mapping):
        return [], ("", reasons.not_an_object(row), "")
    found = []
    for wanted, coder in zip(fields, coders, strict=True):
        value, fault = look_up(row, wanted.path)
        if fault is not None:
            return [], (wanted.label, fault, "")
        number = _number(wanted, coder, value)
        if number is None:
            return [], (wanted.label, *_rule(wanted, value))
        found.append(number)
    return found, None


def _check_value_row(
    fields: Sequence[Field], coders: Sequence[Coder], row: Sequence[object]
) -> tuple[list[float], Fault | None]:
    found = []
    for wanted, coder, value in zip(fields, coders, row, strict=True):
        number = _number(wanted, coder, value)
        if number is None:
            return [], (wanted.label, *_rule(wanted, value))
        found.append(number)
    return found, None


def _rule(field: Field, value: object) -> tuple[str, str]:
    """The rule that a value breaks, and the value, or the part of it that does."""
    rule = RULES[field.kind]
    coder = _coder(field)
    if isinstance(coder, bags.Bags):
        try:
            coder[value]
        except bags.BadDocument as error:
            rule = str(error)
            if error.value is not value:
                return rule, reasons.shown(error.value)
    return reasons.broken(rule, value, EXPECTED.get(field.kind))


def _code(coder: Coder, value: object) -> float | None:
    """The code of a category, key or document; None if it is none."""
    try:
        return None if coder is None else coder[value]
    except (KeyError, ValueError, TypeError):
        return None


def _number(field: Field, coder: Coder, value: object) -> float | None:
    """The value as a float inside the field's domain, or its code; None if it is neither.

    A boolean is a number only if the field is 0 or 1.
    """
    if coder is not None:
        return _code(coder, value)
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
