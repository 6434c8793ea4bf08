"""Specs of topic models: what they may say, and the vocabulary that they may name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streaminfer import load_spec, parse_spec
from streaminfer.spec.load import SpecError
from streaminfer.tables.kinds import kind_of

MODEL = {"kind": "lda", "field": "words"}


def spec(model: dict[str, Any] | None = None, **sections: Any) -> Any:
    return parse_spec({"name": "demo", "model": {**MODEL, **(model or {})}, **sections})


def test_defaults() -> None:
    made = spec()
    assert made.document["model"] == {
        **MODEL, "topics": 20, "vocabulary": None, "shards": 1, "seed": 0, "local": "mean",
        "prior": {"document": 0.1, "topic": 0.01},
    }  # fmt: skip
    assert (made.shards, kind_of(made).has_rows, made.inference.minibatch) == (1, True, 256)
    assert spec({"shards": 7}).shards == 7


@pytest.mark.parametrize(
    ("model", "sections", "names"),
    [
        ({}, {"key": "city"}, "for each key (got 'city')"),
        ({}, {"inference": {"method": "memoized", "step": {"constant": 0.1}}}, "leave it out (got {'constant': 0.1})"),
        ({}, {"data": {"format": "rows"}}, "data.format: must be json with the model lda"),
        ({}, {"data": {"format": "avro"}}, "data.format: must be json with the model lda"),
        ({}, {"inference": {"forget": {"half_life_events": 9}}}, "inference.forget: cannot be set with lda"),
        ({}, {"inference": {"forget": {"window_events": 9}}}, "inference.forget: cannot be set with lda"),
        ({}, {"drift": {"react": {"half_life_events": 9, "for_events": 9}}}, "drift.react: must be report with lda"),
        ({}, {"inference": {"method": "svi", "step": {"constant": 1.0}}}, "inference.step.constant: must be below 1"),
        (
            {"shards": 2},
            {"inference": {"method": "svi", "epochs": 2}},
            "model.shards: must be 1 with more than one epoch",
        ),
        ({"topics": 1}, {}, "model.topics: must be a whole number at least 2 and at most 1000"),
        ({"shards": 257}, {}, "model.shards"),
        ({"prior": {"document": 0}}, {}, "model.prior.document"),
        ({"vocabulary": []}, {}, "model.vocabulary: must have one word or more"),
        ({"vocabulary": ["a", "b", "a"]}, {}, "model.vocabulary[2]: must not repeat an earlier word"),
        ({"vocabulary": ["a", ""]}, {}, "model.vocabulary[1]: every word must have 1 to 256 bytes"),
        ({"vocabulary": ["a", True]}, {}, "model.vocabulary[1]: must be a string (quote it)"),
        ({"vocabulary": 3}, {}, "model.vocabulary: must be a string"),
        ({"vocabulary": "no-such-file"}, {}, "model.vocabulary: must be a list of words or name a file"),
    ],
)
def test_what_cannot_be_is_said(model: dict[str, Any], sections: dict[str, Any], names: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(model, **sections)
    assert names in str(caught.value)


def test_local_iterations_are_of_svb() -> None:
    assert spec(inference={"local_iterations": 3}).inference.local_iterations == 3
    with pytest.raises(SpecError, match="local_iterations"):
        spec(inference={"method": "svi", "local_iterations": 3})


def written(folder: Path, data: bytes, **model: Any) -> Any:
    (folder / "words.txt").write_bytes(data)
    path = folder / "spec.json"
    path.write_text(json.dumps({"name": "demo", "model": {**MODEL, "vocabulary": "words.txt", **model}}))
    return load_spec(path)


def test_a_vocabulary_may_be_in_a_file_next_to_the_spec(tmp_path: Path) -> None:
    made = written(tmp_path, "zwei\r\neins\nö w\n".encode())
    assert made.model.vocabulary == ("eins", "zwei", "ö w")
    assert made.document["model"]["vocabulary"] == "words.txt"


def test_the_words_are_in_the_fingerprint_and_not_where_they_stand(tmp_path: Path) -> None:
    listed = spec({"vocabulary": ["a", "b"]})
    assert written(tmp_path, b"b\na\n").fingerprint == listed.fingerprint
    assert written(tmp_path, b"b\na\nc\n").fingerprint != listed.fingerprint
    assert spec({"vocabulary": ["a\nb"]}).fingerprint != listed.fingerprint
    assert spec().fingerprint != listed.fingerprint
    assert spec({"shards": 2}).fingerprint != spec().fingerprint


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "has none"),
        (b"a\n\nb\n", "line 2 of"),
        (b"a\na\n", "line 2 of"),
        (b"a\n" + b"x" * 257 + b"\n", "line 2 of"),
        (b"a\n\xff\n", "cannot be read as text"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(SpecError, match=r"model\.vocabulary") as caught:
        written(tmp_path, data)
    assert says in str(caught.value)


def test_too_many_words_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.models.lda.vocabulary.MOST", 2)
    monkeypatch.setattr("streaminfer.spec.words.MOST", 2)
    assert len(written(tmp_path, b"a\nb\n").model.vocabulary) == 2
    with pytest.raises(SpecError, match=r"line 3 of .*at most 2 words"):
        written(tmp_path, b"a\nb\nc\nd\n")
