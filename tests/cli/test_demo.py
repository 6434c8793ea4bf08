"""`demo`: it serves its dashboard, and on a bus that stays it is exact each time, whatever earlier ones have left."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path
from urllib.request import urlopen

import pytest

from streaminfer.bus.connect import open_bus
from tests.faults.programs import Programs, free_port, wait_for


def play(programs: Programs, url: str) -> None:
    program = programs.run("demo", "--events", 500, "--seconds", 1, "--kills", 1, "--bus", url)
    assert "500 parcels, 1 kill (" in program.out
    assert "(exact, at most 1e-9)" in program.out


def look(programs: Programs, url: str) -> None:
    """The same, whose dashboard is looked at meanwhile."""
    address = f"127.0.0.1:{free_port()}"
    sizes = ("--events", 500, "--seconds", 1, "--kills", 1)
    demo = programs.start("demo", *sizes, "--bus", url, "--stay", "--http", address)

    def served() -> bool:
        assert demo.alive, demo.err
        try:
            with urlopen(f"http://{address}/v1/posteriors", timeout=5) as answer:
                (found,) = json.load(answer)["posteriors"]
        except OSError:
            return False
        return bool(found["n_events"] == 500)

    wait_for(served, "the dashboard has all parcels")
    with urlopen(f"http://{address}/", timeout=5) as answer:
        assert b"<title>streaminfer</title>" in answer.read()
    assert demo.end(signal.SIGINT) == 0
    assert f"The dashboard is at http://{address}/ while it runs." in demo.out
    assert "(exact, at most 1e-9)" in demo.out


def check_topics(url: str, demos: int) -> None:
    with open_bus(url) as bus:
        events = [name for name in bus.topics() if name.endswith(".events")]
        assert [sum(bus.ends(name).values()) for name in events] == [500] * demos
    assert all(name.startswith("delivery-") for name in events)


@pytest.mark.xdist_group("processes")
def test_two_demos_on_one_bus_do_not_meet(programs: Programs, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'bus'}"
    look(programs, url)
    play(programs, url)
    check_topics(url, 2)


@pytest.mark.long
def test_a_demo_on_kafka(programs: Programs, kafka_address: str) -> None:
    url = f"kafka://{kafka_address}/{uuid.uuid4().hex[:8]}"
    play(programs, url)
    check_topics(url, 1)
