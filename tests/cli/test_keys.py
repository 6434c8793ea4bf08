"""`snapshot` of a keyed posterior: pages of keys, one key, and what does not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaminfer import connect, load_spec
from tests.cli.conftest import Workplace

pytestmark = pytest.mark.xdist_group("processes")

SPEC = "{name: towns, model: {kind: bernoulli, field: y}, key: {field: town, shards: 2}, inference: {minibatch: 8}}\n"
TOWNS = [f"town {i:02d}" for i in range(30)]


@pytest.fixture(scope="module")
def towns(workplace: Workplace, shared_bus_url: str) -> Path:
    """A spec whose posterior is on the shared bus: town i has i + 1 events."""
    spec, data = workplace.folder / "towns.yaml", workplace.folder / "towns.csv"
    spec.write_text(SPEC)
    data.write_text("y,town\n" + "".join(f"1,{town}\n" * (i + 1) for i, town in enumerate(TOWNS)))
    up = workplace.programs.run("up", spec, "--data", data, "--until-idle", "--bus", shared_bus_url)
    assert "towns: ended, 465 events of 30 keys in the posterior" in up.err
    return spec


def test_pages_of_keys(workplace: Workplace, towns: Path, shared_bus_url: str) -> None:
    arguments = ("snapshot", towns, "--json", "--limit", 4, "--after", TOWNS[9], "--bus", shared_bus_url)
    found = workplace.call(*arguments).documents
    assert [(each["name"], each["key"], each["n_events"]) for each in found] == [
        ("towns", TOWNS[i], i + 1) for i in range(10, 14)
    ]
    spec = load_spec(towns)
    with connect(shared_bus_url) as bus:
        assert [each.key for each in bus.keys(spec)] == TOWNS
        assert [each.key for each in bus.keys(spec, after=TOWNS[-2])] == TOWNS[-1:]
        assert bus.keys(spec, after=TOWNS[-1]) == []


def test_one_key(workplace: Workplace, towns: Path, shared_bus_url: str) -> None:
    program = workplace.call("snapshot", towns, "--json", "--key", TOWNS[6], "--bus", shared_bus_url)
    (document,) = program.documents
    assert (document["key"], document["n_events"], document["natural"]) == (TOWNS[6], 7, [8.0, 1.0])
    with connect(shared_bus_url) as bus:
        seen = next(iter(bus.subscribe(load_spec(towns), key=TOWNS[6])))
    assert (seen.key, seen.n_events) == (TOWNS[6], 7)


def test_an_unknown_key(workplace: Workplace, towns: Path, shared_bus_url: str) -> None:
    program = workplace.call("snapshot", towns, "--json", "--key", "x", "--bus", shared_bus_url, code=1)
    assert program.out == ""
    assert f"no town 'x' in the posterior 'towns' on {shared_bus_url}: no event has it" in program.err


WRONG = {
    "--key: must be a text of 1 to 256 bytes": ("towns.yaml", "--key", ""),
    "--follow: every key has its own posterior: choose one with --key": ("towns.yaml", "--follow"),
    "coin.yaml has no key, so there is one posterior for all events": ("coin.yaml", "--key", "x"),
}


@pytest.mark.parametrize("rule", WRONG)
def test_what_does_not_go_together(rule: str, workplace: Workplace, towns: Path, shared_bus_url: str) -> None:
    program = workplace.call("snapshot", *WRONG[rule], "--bus", shared_bus_url, code=2)
    assert rule in program.err


def test_python_says_so_too(workplace: Workplace, towns: Path, shared_bus_url: str) -> None:
    keyed, plain = load_spec(towns), load_spec(workplace.spec)
    with connect(shared_bus_url) as bus:
        with pytest.raises(ValueError, match="one posterior for each town: say which with `key`"):
            bus.snapshot(keyed)
        with pytest.raises(ValueError, match="its spec has no key"):
            bus.snapshot(plain, key="x")
        with pytest.raises(ValueError, match="its spec has no key"):
            bus.keys(plain)
