"""`demo --bus`: on a bus that stays it is exact each time, whatever earlier demos have left there."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from streaminfer.bus.connect import open_bus
from tests.faults.programs import Programs


def play(programs: Programs, url: str) -> None:
    program = programs.run("demo", "--events", 500, "--seconds", 1, "--kills", 1, "--bus", url)
    assert "500 parcels, 1 kill (" in program.out
    assert "(exact, at most 1e-9)" in program.out


def check_topics(url: str, demos: int) -> None:
    with open_bus(url) as bus:
        events = [name for name in bus.topics() if name.endswith(".events")]
        assert [sum(bus.ends(name).values()) for name in events] == [500] * demos
    assert all(name.startswith("delivery-") for name in events)


@pytest.mark.xdist_group("processes")
def test_two_demos_on_one_bus_do_not_meet(programs: Programs, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'bus'}"
    play(programs, url)
    play(programs, url)
    check_topics(url, 2)


@pytest.mark.long
def test_a_demo_on_kafka(programs: Programs, kafka_address: str) -> None:
    url = f"kafka://{kafka_address}/{uuid.uuid4().hex[:8]}"
    play(programs, url)
    check_topics(url, 1)
