"""Options: what is refused says field, rule and value; what is accepted comes back with its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.models.options import (
    Choice,
    Either,
    Flag,
    Integer,
    Listing,
    Number,
    OneOrMany,
    Option,
    OptionsError,
    Problem,
    Rule,
    Section,
    Text,
)

SECTION = Section(
    [
        Option("field", Text(), "the field to read"),
        Option("size", Integer(1, 9), "how many", 3),
        Option("limit", Number(above=0.0), "an upper limit", None),
        Option("prior", Section([Option("alpha", Number(above=0.0), "prior count", 1.0)]), "the prior", {}),
    ]
)


def problems_of(rule: Rule, value: object) -> list[str]:
    problems: list[Problem] = []
    rule.check(value, "x", problems)
    return [str(problem) for problem in problems]


def test_defaults_are_filled_also_inside_sections() -> None:
    problems: list[Problem] = []
    checked = SECTION.check({"field": "y"}, "model", problems)
    assert checked == {"field": "y", "size": 3, "limit": None, "prior": {"alpha": 1.0}}
    assert SECTION.check({"field": "y", "size": None}, "model", problems)["size"] == 3
    assert problems == []


def test_all_problems_are_found_at_once_with_their_place() -> None:
    problems: list[Problem] = []
    SECTION.check({"fild": "y", "size": 12, "prior": {"alpha": -1}}, "model", problems)
    assert [problem.field for problem in problems] == ["model.fild", "model.field", "model.size", "model.prior.alpha"]
    assert "did you mean 'field'?" in problems[0].rule
    assert problems[1].rule == "is required: the field to read"
    assert str(problems[3]) == "model.prior.alpha: must be a number above 0 (got -1)"


@pytest.mark.parametrize("value", [[], "text", 3, None])
def test_a_section_is_a_mapping(value: object) -> None:
    assert "must be a mapping" in problems_of(SECTION, value)[0]


@pytest.mark.parametrize(
    ("rule", "good"),
    [
        (Number(), [0, -1.5, 10**300]),
        (Number(above=0.0, maximum=2.0), [1e-300, 2]),
        (Number(minimum=0.0), [0, 0.0]),
        (Integer(1, 3), [1, 3]),
        (Flag(), [True, False]),
        (Text(), ["a", "two\nlines", "x" * 200]),
        (Text("[a-z]+", "small letters"), ["abc"]),
        (Choice(["svb", "svi"]), ["svb"]),
        (Listing(Text()), [["a"], ("a", "b")]),
        (Listing(Number(), unique=False), [[1, 1]]),
        (OneOrMany(Number()), [1, [1, 1, 2]]),
    ],
)
def test_good_values(rule: Rule, good: list[Any]) -> None:
    for value in good:
        assert problems_of(rule, value) == []


@pytest.mark.parametrize(
    ("rule", "bad"),
    [
        (Number(), [True, "1", None, [1], float("nan"), float("inf"), 10**400]),
        (Number(above=0.0, maximum=2.0), [0, -1, 2.1]),
        (Number(minimum=0.0), [-1e-300]),
        (Integer(1, 3), [0, 4, 1.0, True, "1"]),
        (Flag(), [0, 1, "true", None]),
        (Text(), ["", "x" * 201, 3, True, None]),
        (Text("[a-z]+", "small letters"), ["aB", "abc\n"]),
        (Choice(["svb", "svi"]), ["svc", 1, ["svb"]]),
        (Listing(Text()), ["a", [], [1], ["a", "a"], {"a": 1}]),
        (Listing(Text(), maximum=2), [["a", "b", "c"]]),
        (OneOrMany(Number(above=0.0)), [0, [1, 0], [], "1"]),
    ],
)
def test_bad_values(rule: Rule, bad: list[Any]) -> None:
    for value in bad:
        assert problems_of(rule, value), value


def test_messages_say_what_to_do() -> None:
    assert problems_of(Text(), 5) == ["x: must be a string (quote it) (got 5)"]
    assert problems_of(Listing(Number()), [1, "a"]) == ["x[1]: must be a number (got 'a')"]
    assert problems_of(Listing(Text()), ["a", "b", "a"]) == ["x[2]: must not repeat an earlier value (got 'a')"]
    assert "did you mean 'svi'?" in problems_of(Choice(["svb", "svi"]), "svii")[0]
    assert problems_of(Integer(1, 3), 7) == ["x: must be a whole number at least 1 and at most 3 (got 7)"]
    assert len(problems_of(Number(), "y" * 500)[0]) < 130


def test_an_options_error_carries_its_problem() -> None:
    error = OptionsError("target", "must not be among the features", "y")
    assert error.problem == Problem("target", "must not be among the features", "y")
    assert str(error) == "target: must not be among the features"


def test_the_json_schema_says_the_same() -> None:
    schema = SECTION.json_schema()
    assert schema["required"] == ["field"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["size"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "description": "how many",
        "default": 3,
    }
    assert schema["properties"]["prior"]["properties"]["alpha"]["exclusiveMinimum"] == 0.0
    assert "default" not in schema["properties"]["prior"]
    assert Choice(["a"]).json_schema() == {"enum": ["a"]}
    assert OneOrMany(Number()).json_schema()["oneOf"][1]["type"] == "array"
    assert Flag().json_schema() == {"type": "boolean"}


def test_either_takes_what_one_of_its_rules_takes_and_tells_the_first_otherwise() -> None:
    rule = Either((Choice(("a", "b")), Integer(1, 3)))
    problems: list[Problem] = []
    assert rule.check("b", "x", problems) == "b"
    assert rule.check(2, "x", problems) == 2
    assert problems == []
    rule.check(4, "x", problems)
    assert [str(problem) for problem in problems] == ["x: is not a known value; known: a, b (got 4)"]
    assert rule.json_schema() == {"anyOf": [{"enum": ["a", "b"]}, {"type": "integer", "minimum": 1, "maximum": 3}]}
