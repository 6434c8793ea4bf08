"""Failures look like failures: last lines, exit codes, the live line, and what is said of dead letters."""

from __future__ import annotations

import io
import os

import pytest

from streaminfer.cli.terminal import StatusLine
from streaminfer.cli.up import Rate, describe
from streaminfer.runtime.loading.produce import Progress
from streaminfer.runtime.supervising.job import Status
from streaminfer.spec import parse_spec
from streaminfer.variational import fold
from tests.cli.conftest import Workplace
from tests.faults.programs import Programs
from tests.made import changed

pytestmark = pytest.mark.xdist_group("processes")

SPEC = "{name: towns, model: {kind: gaussian, fields: [x]}, key: town, inference: {minibatch: 8}}\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["n", "a-name-that-is-as-long-as-they-may-be-ok"])
def test_the_live_line_shows_dead_letters_on_80_columns(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    spec = parse_spec({"name": name, "model": {"kind": "poisson", "field": "k"}})
    snapshot = changed(
        fold.start(spec.model, spec.fingerprint), n_events=123_456_789, n_dead_lettered=12_345_678, version=4321
    )
    terminal = Terminal()
    status = Status(Progress(1000, 50, 100), snapshot, 1_000_000, 5, 0)
    StatusLine(terminal).show(describe(spec, status, Rate()))
    assert "12,345,678 dead letters" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()
    assert len(terminal.getvalue()) <= 80


def test_the_last_line_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    terminal = Terminal()
    StatusLine(terminal).show("x" * 100 + " the reason", last=True)
    assert terminal.getvalue().endswith(" the reason\n")


def test_a_line_that_was_shown_can_be_taken_away() -> None:
    terminal, quiet = Terminal(), io.StringIO()
    for stream in (terminal, quiet):
        line = StatusLine(stream, at_once=False)
        line.clear()
        line.show("three")
        line.show("at work")
        line.clear()
    assert terminal.getvalue() == "\rthree\r     \r"
    assert quiet.getvalue() == ""


def test_some_dead_letters_are_told_and_are_no_failure(programs: Programs, workplace: Workplace) -> None:
    bus, mixed = f"embedded:{programs.folder / 'bus'}", programs.folder / "mixed.csv"
    mixed.write_text("y,z\n" + "1,1\n" * 10 + ",1\n" * 3 + "2,1\n4\n")
    sent = programs.run("produce", workplace.spec, mixed, "--json", "--bus", bus)
    told = "5 of them will be dead letters; most common reason: y: is empty, must be 0 or 1, or true or false (3)"
    assert told in sent.err.splitlines()[-1]
    assert sent.documents[0]["dead_letters"] == 5
    assert sent.documents[0]["reasons"][0] == {"count": 3, "reason": "y: is empty, must be 0 or 1, or true or false"}
    up = programs.run("up", workplace.spec, "--until-idle", "--bus", bus)
    assert up.err.splitlines()[-1] == (
        "coin: ended, 10 events in the posterior, 5 dead letters; "
        "most common reason: y: is empty, must be 0 or 1, or true or false (3)"
    )
    summary = programs.run("dead-letters", workplace.spec, "--summary", "--bus", bus).out.splitlines()
    assert [" ".join(line.split()) for line in summary] == [
        "count reason example",
        '3 y: is empty, must be 0 or 1, or true or false {"y":"","z":1}',
        '1 row has 1 field, the header has 2 [{"row":["4"],"header_fields":2}]',
        '1 y: must be 0 or 1, or true or false (got 2) {"y":2,"z":1}',
    ]
    (first,) = programs.run("dead-letters", workplace.spec, "--summary", "--limit", 1, "--json", "--bus", bus).documents
    told = (first["count"], first["reason"], first["example"])
    assert told == (3, "y: is empty, must be 0 or 1, or true or false", '{"y":"","z":1}')
    limited = programs.run("dead-letters", workplace.spec, "--limit", 2, "--bus", bus)
    assert len(limited.out.splitlines()) == 3
    assert limited.err == "the first 2 of 5 dead letters (--limit)\n"
    again = programs.run("dead-letters", workplace.spec, "--limit", 2, "--retry", "--bus", bus)
    assert "2 of 2 sent again" in again.err
    wrong = ("dead-letters", workplace.spec, "--summary", "--limit", 2, "--retry", "--bus", bus)
    assert "leave one out" in programs.run(*wrong, code=2).err


def test_a_run_of_dead_letters_alone_fails(programs: Programs, workplace: Workplace) -> None:
    """Also on a posterior that has events already; a run without any event is none of that."""
    bus, bad = f"embedded:{programs.folder / 'bus'}", programs.folder / "bad.csv"
    bad.write_text("y\nno\nyes\n")
    first = programs.run("up", workplace.spec, "--data", bad, "--until-idle", "--bus", bus, code=1)
    assert first.err.splitlines()[-1] == (
        "coin: failed, every new event is a dead letter, 0 events in the posterior, 2 dead letters; "
        "most common reason: y: must be 0 or 1, or true or false (got 'no', ...) (2)"
    )
    programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", bus)
    sent = programs.run("produce", workplace.spec, bad, "--bus", bus, code=1)
    assert "2 events" in sent.err
    assert "every one of them will be a dead letter; most common reason: y: must be 0 or 1, or true" in sent.err
    second = programs.run("up", workplace.spec, "--until-idle", "--bus", bus, code=1)
    assert (
        "coin: failed, every new event is a dead letter, 100 events in the posterior, 4 dead letters, 2 of them new"
        in (second.err)
    )
    third = programs.run("up", workplace.spec, "--until-idle", "--bus", bus)
    assert third.err.splitlines()[-1] == ("coin: ended, 100 events in the posterior, 4 dead letters, 0 of them new")


def test_a_key_that_only_dead_letters_have(programs: Programs) -> None:
    bus = f"embedded:{programs.folder / 'bus'}"
    spec, data = programs.folder / "towns.yaml", programs.folder / "towns.csv"
    spec.write_text(SPEC)
    data.write_text("town,x\nBonn,1\nUlm,\nUlm,?\nJena\n")
    programs.run("up", spec, "--data", data, "--until-idle", "--bus", bus)

    def told(key: str) -> str:
        return (
            programs.run("snapshot", spec, "--key", key, "--bus", bus, code=1).err.strip().partition(": no event ")[2]
        )

    assert told("Ulm") == f"has it, but 2 of the newest 3 dead letters do: see `streaminfer dead-letters {spec}`"
    assert told("Jena") == f"has it; 1 of the newest 3 dead letters may have it: see `streaminfer dead-letters {spec}`"
    assert told("Kiel") == "has it, nor does any of the newest 3 dead letters"
