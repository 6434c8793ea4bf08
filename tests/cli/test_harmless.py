"""Text from events is shown without anything that a terminal acts upon, wherever it is shown."""

from __future__ import annotations

import io
import json
import sys

import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.cli.terminal import Harmless, StatusLine, harmless, printable
from tests.cli.conftest import Workplace

ESC, CSI, RLO, ISOLATE, ZWJ = "\x1b", "\x9b", "\u202e", "\u2066", "\u200d"
EVIL = f"{ESC}[2J{CSI}31m\r\x07{RLO}drow{ISOLATE}\x7f\U000e0041"
SAFE = r"\u001b[2J\u009b31m\u000d\u0007\u202edrow\u2066\u007f\udb40\udc41"
SPEC = "{name: coin, data: {partitions: 1}, key: who, model: {kind: bernoulli, field: y}, inference: {minibatch: 5}}"


def test_what_acts_is_escaped_and_what_is_read_is_not() -> None:
    assert printable(EVIL) == SAFE
    assert printable("Größe 尺寸 ± 🎲 \\") == "Größe 尺寸 ± 🎲 \\"
    assert printable("a\nb\tc") == r"a\u000ab\u0009c"
    assert printable("\ud800") == r"\ud800"


def test_a_stream_keeps_lines_and_json() -> None:
    below = io.StringIO()
    stream = Harmless(below)
    print(json.dumps({"key": EVIL, "ü": 1}, ensure_ascii=False), file=stream)
    print("a\tb\n", EVIL, file=stream)
    first, second, third = below.getvalue().splitlines()
    assert json.loads(first) == {"key": EVIL, "ü": 1}
    assert (second, third) == ("a\tb", f" {SAFE}")
    assert "ü" in first


def test_streams_are_themselves_again() -> None:
    before = sys.stdout, sys.stderr
    with harmless():
        assert isinstance(sys.stdout, Harmless)
        assert isinstance(sys.stderr, Harmless)
    assert (sys.stdout, sys.stderr) == before


def test_a_status_line_moves_the_cursor_and_its_text_does_not() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    below = Terminal()
    StatusLine(Harmless(below)).show(EVIL, last=True)  # type: ignore[arg-type]
    assert below.getvalue() == f"\r{SAFE}\n"


@pytest.fixture
def place(workplace: Workplace) -> Workplace:
    """A keyed posterior whose keys, and whose dead letters, are evil; and whose keys have line ends."""
    workplace.spec.write_text(SPEC)
    rows = [json.dumps({"who": key, "y": 1}) for key in (EVIL, "good", "two\nlines")]
    rows += [json.dumps({"who": "good", "y": EVIL}), json.dumps({"who": "good", EVIL: 2})]
    data = workplace.folder / "evil.ndjson"
    data.write_text("\n".join(rows) + "\n")
    workplace.programs.run("up", workplace.spec, "--data", data, "--until-idle", "--bus", workplace.url)
    with open_bus(workplace.url) as bus:
        bus.publish([Output("coin.events", EVIL.encode(), partition=0)])
    workplace.programs.run("up", workplace.spec, "--until-idle", "--bus", workplace.url, code=1)
    return workplace


def test_in_tables_errors_and_json(place: Workplace) -> None:
    commands: list[tuple[object, ...]] = [
        ("snapshot", place.spec), ("snapshot", place.spec, "--json"), ("snapshot", place.spec, "--key", EVIL),
        ("snapshot", place.spec, "--key", EVIL, "--json"), ("dead-letters", place.spec),
        ("dead-letters", place.spec, "--json"), ("dead-letters", place.spec, "--summary"),
    ]  # fmt: skip
    shown = ""
    for command in commands:
        called = place.call(*command, "--bus", place.url)
        shown += called.out + called.err
        if "--json" in command:
            assert called.documents
    shown += place.call("snapshot", place.spec, "--key", f"{EVIL}!", "--bus", place.url, code=1).err
    assert SAFE in shown
    assert all(c.isprintable() or c == "\n" for c in shown)
    listed = place.call("snapshot", place.spec, "--bus", place.url).out
    assert r"two\u000alines" in listed
    keys = [each["key"] for each in place.call("snapshot", place.spec, "--json", "--bus", place.url).documents]
    assert sorted(keys) == sorted([EVIL, "good", "two\nlines"]), "JSON is the same document"
