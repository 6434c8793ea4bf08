"""lda by sgrld: what a spec may say, and what is filled in."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.sampling.choices.options import LARGEST
from streaminfer.sampling.settings import StepRule
from streaminfer.spec import Spec, parse_spec
from tests.spec.sampled import line


def document(words: int = 3, model: dict[str, Any] | None = None, **inference: Any) -> dict[str, Any]:
    vocabulary = [f"w{i}" for i in range(words)]
    said = {"kind": "lda", "field": "words", "topics": 2, "vocabulary": vocabulary, **(model or {})}
    return {"name": "demo", "model": said, "inference": {"method": "sgrld", **inference}}


def draws(spec: Spec) -> int:
    assert spec.sampling is not None
    return spec.sampling.draws


CASES: list[tuple[dict[str, Any], str]] = [
    (document(model={"vocabulary": None}),
     "model.vocabulary: is required with the method sgrld, as every draw has all words: name a file with one word a "
     "line, or use svb, svi or memoized, which learn words as they appear (got None)"),
    (document(model={"shards": 2}),
     "model.shards: must be 1 with the method sgrld, whose draws have all words: leave it out (got 2)"),
    (document(model={"local": "bound"}),
     "model.local: means nothing with the method sgrld, whose documents are fitted to draws of topics: leave it out "
     "(got 'bound')"),
    (document(start="mode"),
     "inference.start: must be prior, as the model has no gradient, by which a mode is found: leave it out "
     "(got 'mode')"),
    (document(forget={"half_life_events": 9}),
     "inference.forget.half_life_events: means nothing with the method sgrld, for which an event counts fully or not "
     "at all: use window_events (got 9.0)"),
    ({**document(), "data": {"format": "rows"}},
     "data.format: must be json with the model lda: documents are not rows of numbers (got 'rows')"),
    (document(1000, {"topics": 1000}, chains=64, draws=2),
     "inference.draws: must be at most 1 with 64 chains and 1000000 numbers in a draw, 67108864 numbers in all: set "
     "fewer draws or chains, and a larger thin (got 2)"),
    (document(2000, {"topics": 1000}, chains=64),
     "inference.chains: must be at most 33, as a draw has 2000000 numbers and all chains together 67108864 at most: "
     "set fewer chains, or make the model smaller (got 64)"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), CASES)
def test_one_problem_is_one_exact_line(given: dict[str, Any], expected: str) -> None:
    assert line(given) == expected


def test_what_is_not_said_is_filled_in() -> None:
    found = parse_spec(document()).sampling
    assert found is not None
    assert (found.start, found.minibatch, found.batches) == ("prior", 256, "random")
    assert (found.transition, found.step, found.thin, found.draws) == ("cir", StepRule(size=25.6), None, 100)


@pytest.mark.parametrize(("words", "topics", "expected"), [(3, 2, 100), (1000, 50, 20), (5000, 50, 10), (9000, 800, 2)])
def test_large_topics_have_fewer_draws(words: int, topics: int, expected: int) -> None:
    spec = parse_spec(document(words, {"topics": topics}))
    assert draws(spec) == expected
    assert 4 * expected * words * topics <= LARGEST


def test_windows_are_for_topics_too() -> None:
    assert parse_spec(document(forget={"window_events": 9})).inference.windowed


def test_documents_have_a_limited_length_only_if_they_are_sampled() -> None:
    assert [field.longest for field in parse_spec(document()).fields] == [100_000]
    assert [field.longest for field in parse_spec({**document(), "inference": {"method": "svb"}}).fields] == [None]
