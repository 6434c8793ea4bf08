"""A table of numbers in text, without a Python object for each: by pyarrow's reader, or without that by numpy."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

_OF_NUMBERS: Final = b"0123456789+-.eE"
_NEGATIVE_ZERO: Final = re.compile(rb"(?:^|[,\n])-0+(?:[,\n]|\Z)").search
"""As a whole number it is 0, while readers of floats keep its sign."""

_EXACT: Final = 2.0**53


def matrix_of(text: bytes, n_columns: int, wanted: Sequence[int]) -> Matrix | None:
    """Some columns of lines, each of which has `n_columns` cells between commas and an end, and no quotes.

    None if a cell is anything but a finite number, or if readers differ about what number it is.
    """
    arrow = pyarrow_csv()
    found = _by_numpy(text, n_columns, wanted) if arrow is None else _by_arrow(arrow, text, n_columns, wanted)
    if found is None or not np.isfinite(found).all():
        return None
    if (np.signbit(found) & (found == 0)).any() and _NEGATIVE_ZERO(text):
        return None
    return found


def has_exact_keys(matrix: Matrix, at: int | None) -> bool:
    """Whether all keys, which are in the column `at`, can be told from float64."""
    return at is None or bool((np.abs(matrix[:, at]) < _EXACT).all())


@cache
def pyarrow_csv() -> Any:
    """pyarrow's reader of CSV; None without pyarrow (the extra `parquet`)."""
    try:
        from pyarrow import csv
    except ImportError:
        return None
    return csv


def _by_arrow(arrow: Any, text: bytes, n_columns: int, wanted: Sequence[int]) -> Matrix | None:
    from pyarrow import ArrowException, float64, py_buffer

    names = [str(i) for i in range(n_columns)]
    used = list(dict.fromkeys(names[i] for i in wanted))
    try:
        table = arrow.read_csv(
            py_buffer(text),
            read_options=arrow.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
            parse_options=arrow.ParseOptions(quote_char=False, double_quote=False, ignore_empty_lines=False),
            convert_options=arrow.ConvertOptions(
                include_columns=used,
                column_types=dict.fromkeys(used, float64()),
                null_values=[],
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
    except ArrowException:
        return None
    return np.stack([table.column(names[i]).to_numpy() for i in wanted], axis=1)


def _by_numpy(text: bytes, n_columns: int, wanted: Sequence[int]) -> Matrix | None:
    """Only if all columns are numbers."""
    shape = b"," * (n_columns - 1) + b"\n"
    if text.translate(None, _OF_NUMBERS) != shape * text.count(b"\n"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy before 2.3 only warns of what it cannot read
            found = np.fromstring(text[:-1].replace(b"\n", b","), dtype=np.float64, sep=",")
    except (ValueError, DeprecationWarning):
        return None
    if len(found) != n_columns * text.count(b"\n"):
        return None
    table = found.reshape(-1, n_columns)
    return table if list(wanted) == list(range(n_columns)) else table[:, list(wanted)]
