"""Events: the fast way and the careful way agree, and what is refused says why."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.models.checks import check
from streaminfer.models.events import LARGEST, RULES, Field, Kind
from streaminfer.models.reasons import shown

GOOD: dict[Kind, list[object]] = {
    "number": [0, -1.5, 10**20, 1e100, -1e100, 5e-324],
    "positive": [1e-300, 2, 1e100],
    "count": [0, 3, 4.0, 2**53],
    "binary": [0, 1, 1.0, True, False],
    "category": ["a", "b"],
    "time": [0, -1.5, 1_700_000_000, 253_402_300_799],
    "key": ["a", 7, "b", "é" * 128, -3],
    "tokens": [["a", "b", "a"], {"a": 2, "é": 2**53}, [], {}],
}
BAD: dict[Kind, list[object]] = {
    "number": [True, "1", None, [1], {}, math.nan, math.inf, -math.inf, 1.1e100, 10**400],
    "positive": [0, -1, -1e-300, math.nan, math.inf, False],
    "count": [-1, 1.5, 2**53 + 2, math.nan, math.inf, True, "3"],
    "binary": [2, -1, 0.5, "1", "yes", "tRUE", "", None, np.nan, [True]],
    "category": ["c", "", 1, None, ["a"], True],
    "time": ["2024-05-01", "", 1e12, -1e11, math.nan, math.inf, True, None],
    "key": ["", "é" * 129, 1.5, math.nan, math.inf, True, None, ["a"], {}],
    "tokens": ["a", 1, None, True],  # the others have rules of their own: see test_bags
}


def field_of(kind: Kind) -> Field:
    return Field("x", kind, ("a", "b") if kind == "category" else ())


@pytest.mark.parametrize("kind", RULES)
def test_good_values_become_a_column(kind: Kind) -> None:
    events, rejected = check([field_of(kind)], [{"x": value, "more": 1} for value in GOOD[kind]])
    assert (events.n, rejected) == (len(GOOD[kind]), ())
    assert events.numbers.dtype == np.float64
    assert [events.keys is not None, events.documents is not None] == [kind == "key", kind == "tokens"]
    if kind in {"key", "tokens"}:
        assert events.numbers.shape == (len(GOOD[kind]), 0)
        return
    exact = [0.0, 1.0] if kind == "category" else [float(value) for value in GOOD[kind]]  # type: ignore[arg-type]
    np.testing.assert_array_equal(events.numbers, np.array(exact)[:, None])


@pytest.mark.parametrize("together", [True, False])
def test_numbers_keys_and_documents_are_apart_and_in_step(together: bool) -> None:
    fields = [Field("d", "tokens"), Field("x", "number"), Field("k", "key"), Field("c", "category", ("a", "b"))]
    rows = [{"d": list(words), "x": x, "k": k, "c": c} for words, x, k, c in
            [("vu", 1, "ö", "a"), ("w", 2, 10, "b"), ("", 3, "ö", "b"), ("u", 4, "9", "a")]]  # fmt: skip
    found = check(fields, rows if together else [*rows, {**rows[0], "k": "other", "c": "z"}]).events
    assert found.keys is not None
    for events, numbers, labels, groups, words, n in (
        (found, [[1, 0], [2, 1], [3, 1], [4, 0]], ("10", "9", "ö"), [2, 0, 2, 1], ("u", "v", "w"), [2, 1, 0, 1]),
        (found.only(np.array([2, 3])), [[3, 1], [4, 0]], ("9", "ö"), [1, 0], ("u",), [0, 1]),
        (found.only(np.array([True, False, True, False])), [[1, 0], [3, 1]], ("ö",), [0, 0], ("u", "v"), [2, 0]),
    ):
        assert events.numbers.tolist() == numbers
        assert events.keys is not None
        assert [label.decode() for label in events.keys.labels] == list(labels)
        assert events.keys.groups.tolist() == groups
        assert [label.decode() for label in events.bagged.labels] == list(words)
        assert events.bagged.documents.entries.tolist() == n


def test_a_field_is_a_value_that_a_check_leaves_as_it_was() -> None:
    fields = [Field("k", "key"), Field("d", "tokens", most=2), Field("c", "category", ("a",))]
    before = repr(fields)
    for value in ("a", "b"):
        keys = check(fields, [{"k": value, "d": [value], "c": "a"}]).events.keys
        assert keys is not None
        assert keys.labels == (value.encode(),), "nothing is left of the check before"
    assert repr(fields) == before
    assert len({*fields, Field("k", "key", path=("k",))}) == 3, "fields that say the same are equal"
    with pytest.raises(AttributeError):
        fields[0].name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        fields[0].codes = {}  # type: ignore[attr-defined]


def test_events_without_documents_say_so() -> None:
    with pytest.raises(TypeError, match="none of the fields of these events is a document"):
        _ = check([Field("x", "number")], []).events.bagged


@pytest.mark.parametrize("kind", RULES)
def test_each_bad_value_is_refused_with_its_rule(kind: Kind) -> None:
    for value in BAD[kind]:
        events, rejected = check([field_of(kind)], [{"x": GOOD[kind][0]}, {"x": value}, {"x": GOOD[kind][1]}])
        assert events.n == 2, value
        (fault,) = rejected
        assert (fault.row, fault.field) == (1, "x")
        assert RULES[kind] in fault.reason or "expected a number" in fault.reason
        assert fault.reason.isprintable()
        assert len(fault.reason) < 300


@pytest.mark.parametrize("row", [[], "x", None, 3, [1.0]])
def test_an_event_is_a_mapping(row: object) -> None:
    events, rejected = check([field_of("number")], [row, {"x": 1.0}])
    np.testing.assert_array_equal(events.numbers, [[1.0]])
    assert rejected[0].reason == f"an event must be an object with named fields (got {shown(row)})"


def test_a_missing_field_and_the_first_fault_of_a_row() -> None:
    fields = [Field("a", "number"), Field("b", "count")]
    events, rejected = check(fields, [{"a": 1}, {"b": 1}, {"a": "x", "b": -1}, {"a": 1, "b": 2}])
    np.testing.assert_array_equal(events.numbers, [[1.0, 2.0]])
    assert [fault.reason for fault in rejected] == ["b: is missing", "a: is missing", "a: expected a number, got 'x'"]
    assert [fault.row for fault in rejected] == [0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("number", "", "x: is empty, expected a number"),
        ("number", None, "x: is null, expected a number"),
        ("number", "ask", "x: expected a number, got 'ask'"),
        ("number", "a\x1b[2J\nb", "x: expected a number, got 'a\\x1b[2J\\nb'"),
        ("number", "y" * 100, f"x: expected a number, got '{'y' * 40}'..."),
        ("number", {"a": 1}, "x: expected a number, got an object of 1 field"),
        ("number", 1e200, "x: must be a number of size at most 1e+100 (got 1e+200)"),
        ("number", 10**400, "x: must be a number of size at most 1e+100 (got a whole number of more than 40 digits)"),
        ("binary", 2.0, "x: must be 0 or 1, or true or false (got 2)"),
        ("binary", "", "x: is empty, must be 0 or 1, or true or false"),
        ("binary", "yes", "x: must be 0 or 1, or true or false (got 'yes')"),
        ("category", "c", "x: must be one of the categories (got 'c')"),
    ],
)
def test_reasons_say_the_value(kind: Kind, value: object, told: str) -> None:
    assert [fault.reason for fault in check([field_of(kind)], [{"x": value}]).rejected] == [told]


@pytest.mark.parametrize("together", [True, False])
def test_true_and_false_are_1_and_0_where_a_field_is_binary_and_nowhere_else(together: bool) -> None:
    texts = ["true", "False", "TRUE", "false", "True", "FALSE"]
    rows: list[object] = [{"x": value} for value in (True, False, *texts, 1)]
    found = check([field_of("binary")], rows if together else [*rows, {"x": "no"}])
    assert found.events.numbers[:, 0].tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 1]
    for kind in ("number", "count", "positive"):
        assert len(check([field_of(kind)], rows[:-1]).rejected) == 8  # type: ignore[arg-type]


@pytest.mark.parametrize("together", [True, False])
def test_a_whole_number_is_the_category_that_its_text_is(together: bool) -> None:
    field = Field("x", "category", ("7", "07", "1.5"))
    rows: list[object] = [{"x": value} for value in (7, 7.0, "07", "7", "1.5")]
    bad: list[object] = [] if together else [{"x": value} for value in (1.5, 8, True, None, [7])]
    found = check([field], rows + bad)
    assert found.events.numbers[:, 0].tolist() == [0, 0, 1, 0, 2]
    assert [each.row for each in found.rejected] == list(range(5, 5 + len(bad)))


def test_no_rows() -> None:
    events, rejected = check([Field("a", "number"), Field("b", "number")], [])
    assert events.numbers.shape == (0, 2)
    assert rejected == ()


@given(st.lists(st.one_of(st.floats(), st.integers(-(10**120), 10**120), st.booleans(), st.none()), max_size=8))
def test_the_two_ways_agree(values: list[object]) -> None:
    """A batch keeps exactly the rows that pass one by one."""
    field = Field("x", "number")
    alone = [check([field], [{"x": value}]) for value in values]
    events, rejected = check([field], [{"x": value} for value in values])
    np.testing.assert_array_equal(events.numbers[:, 0], [v for one in alone for v in one.events.numbers[:, 0]])
    assert [fault.row for fault in rejected] == [i for i, one in enumerate(alone) if one.rejected]
    assert (np.abs(events.numbers) <= LARGEST).all()
