"""`repair` shows what is in the way of a posterior and steps over it."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output
from streaminfer.cli import main

PLAIN = "name: coins\ndata: {partitions: 1}\nmodel: {kind: bernoulli, field: x}\n"
KEYED = PLAIN + "key: city\n"
WINDOW = PLAIN + "inference: {forget: {window_events: 100}}\n"
MEMOIZED = (
    "name: coins\ndata: {partitions: 1}\nmodel: {kind: logistic_regression, target: x, features: [z]}\n"
    "inference: {method: memoized, epochs: 2, minibatch: 4}\n"
)
WORDS = "name: coins\ndata: {partitions: 1}\nmodel: {kind: lda, field: words, topics: 2}\ninference: {minibatch: 4}\n"
WORD_PASSES = WORDS.replace("{minibatch: 4}", "{method: memoized, epochs: 2, minibatch: 4}")
SAMPLED = PLAIN + "inference: {method: gibbs, chains: 2, draws: 50}\n"
STREAM = PLAIN + "inference: {method: sgld, source: stream, chains: 2, minibatch: 1, draws: 4, warmup: 0, thin: 1}\n"
DOCUMENTS = "".join(f'{{"words": ["a", "b", "w{i}"], "x": {i % 2}, "z": {i % 3}, "city": "a"}}\n' for i in range(9))
EVENTS = "x,city\n" + "1,a\n0,b\n1,a\n" * 3


def _up(directory: Path, text: str) -> tuple[Path, list[str]]:
    """A spec with its posterior on a bus, and the arguments of every command."""
    documents = "words" in text or "features" in text
    spec, data = directory / "spec.yaml", directory / ("data.ndjson" if documents else "data.csv")
    spec.write_text(text)
    data.write_text(DOCUMENTS if documents else EVENTS)
    bus = ["--bus", f"embedded:{directory / 'bus'}"]
    assert main(["up", str(spec), "--data", str(data), "--until-idle", *bus]) == 0
    return spec, bus


def _junk(directory: Path, key: bytes, topic: str = "posterior") -> None:
    with EmbeddedBus(directory / "bus") as bus:
        bus.publish([Output(f"coins.{topic}", b"junk", key, 0)])
        for each in [each.name for each in bus.topics().values() if each.cleanup == "compact"]:
            bus.compact(each)


@pytest.mark.parametrize("text", [PLAIN, KEYED], ids=["plain", "keyed"])
def test_nothing_is_in_the_way(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, bus = _up(tmp_path, text)
    capsys.readouterr()
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    assert capsys.readouterr().out == "coins.posterior-0: nothing to repair\n"


@pytest.mark.parametrize(("text", "key"), [(PLAIN, b"manifest"), (KEYED, b"manifest"), (KEYED, b"key/0/a")])
def test_without_a_whole_snapshot_it_starts_over_when_told_to(
    text: str, key: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, bus = _up(tmp_path, text)
    _junk(tmp_path, key)
    assert main(["repair", str(spec), *bus]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    said = capsys.readouterr().out
    assert "blocked by coins.posterior-0 offset " in said
    assert "coins.posterior-0: done: start over from the prior, and read again all events" in said
    assert main(["up", str(spec), "--until-idle", *bus]) == 0
    assert main(["snapshot", str(spec), *(["--key", "a"] if "city" in text else []), *bus]) == 0
    assert ("\n6 events;" if "city" in text else "\n9 events;") in capsys.readouterr().out
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    assert capsys.readouterr().out == "coins.posterior-0: nothing to repair\n"


@pytest.mark.parametrize(
    ("text", "topic", "key"),
    [
        (WINDOW, "statistics", b"0/1/0"),
        (MEMOIZED, "statistics", b"0/4/0"),
        (WORDS, "posterior", b"key/0/a"),
        (WORD_PASSES, "statistics", b"0/4/0"),
    ],
)
def test_every_kind_starts_over_when_nothing_whole_is_left(
    text: str, topic: str, key: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, bus = _up(tmp_path, text)
    _junk(tmp_path, key, topic)
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    said = capsys.readouterr().out
    assert f"blocked by coins.{topic}-0 offset " in said
    assert "coins.posterior-0: done: start over from the prior, and read again all events" in said
    assert main(["up", str(spec), "--until-idle", *bus]) == 0
    assert main(["snapshot", str(spec), *bus]) == 0
    assert "\n9 events" in capsys.readouterr().out
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    assert capsys.readouterr().out == "coins.posterior-0: nothing to repair\n"


def test_it_asks_and_does_nothing_where_the_answer_is_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, bus = _up(tmp_path, PLAIN)
    with EmbeddedBus(tmp_path / "bus") as opened:
        opened.publish([Output("coins.posterior", b"junk", b"manifest", 0)])
        before = opened.ends("coins.posterior")
    answers = StringIO("\nyes\n")
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", answers)
    assert main(["repair", str(spec), *bus]) == 1
    assert "coins.posterior-0: continue from version " in capsys.readouterr().out
    with EmbeddedBus(tmp_path / "bus") as opened:
        assert opened.ends("coins.posterior") == before
    assert main(["repair", str(spec), *bus]) == 0
    assert "with 9 events, and read all later events again" in capsys.readouterr().out


def test_nothing_is_in_the_way_of_chains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, bus = _up(tmp_path, SAMPLED)
    capsys.readouterr()
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    assert capsys.readouterr().out == (
        "coins.posterior-0: nothing to repair\n"
        "coins.sampler-state-0: nothing to repair\ncoins.sampler-state-1: nothing to repair\n"
    )


@pytest.mark.parametrize("text", [SAMPLED, STREAM], ids=["segments", "stream"])
def test_a_sampled_posterior_is_made_again_from_its_draws(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, bus = _up(tmp_path, text)
    assert main(["draws", str(spec), "--json", *bus]) == 0
    before = capsys.readouterr().out
    _junk(tmp_path, b"manifest")
    assert main(["up", str(spec), "--until-idle", *bus]) == 1
    capsys.readouterr()
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    said = capsys.readouterr().out
    assert "blocked by coins.posterior-0 offset " in said
    assert "coins.posterior-0: done: make the posterior again from the draws that are still on the bus" in said
    assert main(["up", str(spec), "--until-idle", *bus]) == 0
    capsys.readouterr()
    assert main(["draws", str(spec), "--json", *bus]) == 0
    assert capsys.readouterr().out == before
    assert main(["snapshot", str(spec), *bus]) == 0
    assert "\n9 events;" in capsys.readouterr().out
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    assert capsys.readouterr().out.startswith("coins.posterior-0: nothing to repair\n")


def test_it_says_what_a_sampler_does_about_a_state_that_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, bus = _up(tmp_path, SAMPLED)
    _junk(tmp_path, b"part-0", "sampler-state")
    capsys.readouterr()
    assert main(["repair", str(spec), "--yes", *bus]) == 0
    said = capsys.readouterr().out
    assert "stepped over coins.sampler-state-0 offset " in said
    assert "coins.sampler-state-0: its state and its draws on coins.draws-0 do not belong together." in said
    assert "the sampler ends segment 0 and begins the next one\ncoins.sampler-state-1: nothing to repair\n" in said
