"""What the other tests start ends when it is told to, for every user who runs the tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.faults.programs import Programs, wait_for


@pytest.fixture
def ignoring() -> Iterator[None]:
    """As in a job of a script, which ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignoring")
def test_a_program_ends_with_sigint_where_its_tests_ignore_it(programs: Programs) -> None:
    (programs.folder / "waits.py").write_text("import signal\nprint('waits')\nsignal.pause()\n")
    programs.environment["PYTHONPATH"] = str(programs.folder)
    program = programs.start(module="waits")
    wait_for(lambda: "waits" in program.out, "it waits")
    assert program.end(signal.SIGINT) != 0
    assert "KeyboardInterrupt" in program.err
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN, "the tests themselves go on as they were"
