"""Tables of pandas as rows, without pandas: anything that has its columns, places and records will do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from streaminfer.models.events import Field
from streaminfer.runtime.loading.files import nearest

PORTION: Final = 10_000
"""Rows that are made at once."""


class RowError(ValueError):
    """A row that the model cannot read; names the row, the field and the rule."""


def rows_of(fields: Sequence[Field], data: Any) -> Iterable[Mapping[str, Any]]:
    """The rows of a table, with the columns that the fields read; what is not a table is rows already.

    Raises RowError if a column is missing, and at the first row with a missing value.
    """
    if not all(hasattr(data, name) for name in ("columns", "iloc", "to_dict")):
        rows: Iterable[Mapping[str, Any]] = data
        return rows
    columns = list(data.columns)
    labels = {field.path[0]: field.label for field in fields}
    for name in labels:
        if columns.count(name) != 1:
            rule = "has no column" if name not in columns else "has more than one column"
            raise RowError(f"the table {rule} {name!r}, which the model reads{nearest(name, list(map(str, columns)))}")
    return _portions(data[list(labels)], list(labels.values()))


def _portions(table: Any, labels: list[str]) -> Iterator[Mapping[str, Any]]:
    for begin in range(0, len(table), PORTION):
        part = table.iloc[begin : begin + PORTION]
        missing = np.argwhere(np.asarray(part.isna()))
        good = part if not len(missing) else part.iloc[: missing[0][0]]
        yield from good.to_dict("records")
        if len(missing):
            row, column = missing[0].tolist()
            raise RowError(f"row {begin + row}: {labels[column]}: is missing (got {part.iloc[row, column]})")
