"""Cells of CSV files: whatever they hold, what goes into an event is JSON and says the same."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streaminfer.runtime.loading.cells import looks, number, truth

TEXTS = st.one_of(
    st.text(),
    st.floats().map(repr),
    st.integers().map(str),
    st.decimals().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.18e}"),
    st.text("0123456789+-.eE_ ", max_size=12),
)


@pytest.mark.parametrize("made", [looks, number, truth])
@given(TEXTS)
@example("1.0e999")
@example("-0")
def test_a_cell_is_its_text_or_the_number_that_it_says(made: Callable[[str], str], text: str) -> None:
    found = json.loads(made(text))
    if isinstance(found, str):
        assert found == text
    elif not isinstance(found, bool):
        assert math.isfinite(found)
        assert found == float(text) or found == int(text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53))
def test_numbers_as_programs_write_them_are_numbers(x: float, n: int) -> None:
    assert json.loads(looks(repr(x))) == json.loads(looks(f"{x:.18e}")) == x
    assert json.loads(looks(str(n))) == n
    assert type(json.loads(looks(str(n)))) is int


@given(st.text("0123456789", min_size=2, max_size=30).filter(lambda text: text[0] == "0" or int(text) > 2**53))
def test_codes_of_digits_stay_texts(text: str) -> None:
    assert json.loads(looks(text)) == text
    assert json.loads(looks(f"+{text}")) == f"+{text}"
