"""`snapshot`: before there is one, as a table, as JSON, and as it changes."""

from __future__ import annotations

import signal

import pytest

from streaminfer import connect
from streaminfer.bus.connect import open_bus
from streaminfer.cli.common import ABOUT
from tests.cli.conftest import ONES, ZEROS, Workplace
from tests.faults.programs import Programs, wait_for

pytestmark = pytest.mark.xdist_group("processes")

WAITING = "no posterior 'coin' yet: waiting for `streaminfer up`\n"


def test_before_anything_it_says_how_to_start(workplace: Workplace, bus_url: str) -> None:
    open_bus(bus_url).close()
    program = workplace.call("snapshot", workplace.spec, "--json", "--bus", bus_url, code=1)
    assert program.out == ""
    assert f"no posterior 'coin' on {bus_url} yet: start it with `streaminfer up`" in program.err


def test_the_document(workplace: Workplace, prepared_url: str) -> None:
    (document,) = workplace.call("snapshot", workplace.spec, "--json", "--bus", prepared_url).documents
    a, b = 1 + ONES, 1 + ZEROS
    expected = {
        "name": "coin", "key": None, "n_events": 100, "n_effective": 100, "n_lost": 0, "n_dead_lettered": 0,
        "exactness": "exact", "method": "svb", "model": "bernoulli", "family": "beta", "natural": [a, b],
        "frontier": {"coin.events-0": 50, "coin.events-1": 50},
    }  # fmt: skip
    assert {name: document[name] for name in expected} == expected
    assert document["parameters"]["p"]["mean"] == pytest.approx(a / (a + b), rel=1e-12)
    assert document["version"] >= 1
    assert document["read_to"] >= 1
    assert document["created_at"].endswith("Z")


def test_the_table(workplace: Workplace, prepared_url: str) -> None:
    lines = workplace.call("snapshot", workplace.spec, "--bus", prepared_url).out.splitlines()
    assert lines[0].startswith("coin: bernoulli by svb, exact, version ")
    assert lines[1].startswith("100 events; ")
    assert lines[2].split() == ["parameter", "mean", "sd"]
    assert lines[3].split() == ["p", "0.696078", "0.0453"]


def test_follow_goes_on_until_it_is_interrupted(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    follower = programs.start("snapshot", workplace.spec, "--follow", "--json", "--bus", bus_url)
    lines = programs.start("snapshot", workplace.spec, "--follow", "--bus", bus_url)
    programs.start("up", workplace.spec, "--bus", bus_url)
    for count in (100, 200):
        programs.run("produce", workplace.spec, workplace.data, "--bus", bus_url)
        wait_for(lambda count=count: any(d["n_events"] == count for d in follower.documents), f"{count} events")
    assert follower.end(signal.SIGINT) == 0
    assert lines.end(signal.SIGINT) == 0
    versions = [document["version"] for document in follower.documents]
    assert versions == sorted(set(versions))
    assert len(versions) >= 3
    shown = [line.split()[:4] for line in lines.out.splitlines()]
    assert ["version", str(versions[-1]), "200", "events"] in shown
    assert follower.err in {"", WAITING}
    assert lines.err in {f"{ABOUT}\n", f"{ABOUT}\n{WAITING}"}


def test_follow_waits_for_topics_and_makes_none(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    follower = programs.start("snapshot", workplace.spec, "--follow", "--bus", bus_url)
    wait_for(lambda: follower.err == f"{ABOUT}\n{WAITING}", "it says what it waits for")
    with connect(bus_url) as connection:
        assert not [name for name in connection.bus.topics() if name.startswith("coin.")]
    assert follower.end(signal.SIGINT) == 0


@pytest.mark.parametrize("command", ["snapshot", "dead-letters", "topics"])
def test_looking_makes_no_bus(programs: Programs, workplace: Workplace, command: str) -> None:
    nowhere = programs.folder / "nowhere"
    program = programs.run(command, workplace.spec, "--bus", f"embedded:{nowhere}", code=1)
    assert f"no bus exists in {nowhere}" in program.err
    assert not nowhere.exists()
