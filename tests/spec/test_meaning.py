"""How two specs differ, from what a posterior keeps of the one that began it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaminfer.spec import meaning, parse_spec
from tests.spec.documents import FULL, document


def kept(**changes: Any) -> meaning.Meaning:
    """What a reader finds of a spec."""
    text = meaning.text_of(parse_spec(document("poisson", **changes)).meaning)
    assert text is not None
    found = meaning.read(text)
    assert found is not None
    return found


DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    (
        {"inference": {"forget": {"half_life_events": 5}}},
        "inference.forget.half_life_events is not set in that spec and 5.0 in this one",
    ),
    ({"data": {"format": "rows"}}, 'data.format is "json" in that spec and "rows" in this one'),
    ({"data": {"topic": "theirs"}}, 'data.topic is not set in that spec and "theirs" in this one'),
    ({"key": "city"}, 'key.default is not set in that spec and "prior" in this one'),
]


@pytest.mark.parametrize(("changes", "said"), DIFFERENCES)
def test_a_field_and_both_values(changes: dict[str, Any], said: str) -> None:
    assert said in meaning.differences(kept(), parse_spec(document("poisson", **changes)).meaning)


@pytest.mark.parametrize("kind", FULL)
def test_a_spec_does_not_differ_from_itself(kind: str) -> None:
    spec = parse_spec(document(kind))
    text = meaning.text_of(spec.meaning)
    assert text is not None
    assert meaning.differences(meaning.read(text) or {}, spec.meaning) == []


def test_of_long_values_there_is_a_hash() -> None:
    one, other = ({"model": {"kind": "x", "features": [f"{name}-{i}" for i in range(500)]}} for name in "ab")
    text = meaning.text_of(one)
    assert text is not None
    assert len(text) < 100
    (said,) = meaning.differences(json.loads(text), other)
    assert said.startswith("model.features is a long value (sha256:")


def test_a_meaning_that_is_too_long_is_not_kept() -> None:
    assert meaning.text_of({"model": {f"option-{i}": 1 for i in range(1000)}}) is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 4000, b"{}" + b" " * 5000])
def test_what_is_no_meaning_is_none(text: bytes) -> None:
    assert meaning.read(text) is None


def test_names_and_values_from_outside_do_not_reach_a_terminal_as_they_are() -> None:
    (said,) = meaning.differences({"\x1b[2J": "\x1b[2J"}, {})
    assert said == '\\x1b[2J is "\\u001b[2J" in that spec and not set in this one'


def test_an_option_that_says_what_was_always_done_is_not_in_the_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    before = meaning.fingerprint({"model": {"kind": "poisson", "field": "k"}})
    monkeypatch.setattr(meaning, "FORMER", {"poisson": {"local": "bound", "sweeps": 1}})
    assert meaning.without_former({"kind": "poisson", "field": "k", "local": "bound"}) == {
        "kind": "poisson",
        "field": "k",
    }
    for model, said in [
        ({"local": "tight"}, "it was begun when model.local was 'bound': set model.local: bound to continue it"),
        (
            {"local": "tight", "sweeps": 2},
            "it was begun when model.local was 'bound' and model.sweeps was 1: "
            "set model.local: bound and model.sweeps: 1 to continue it",
        ),
    ]:
        assert meaning.remedy({"model": {"kind": "poisson", "field": "k", **model}}, before) == said
    assert meaning.remedy({"model": {"kind": "poisson", "field": "z", "local": "tight"}}, before) is None
