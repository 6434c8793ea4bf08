"""A table by `up`, and a second spec that reads other columns of the same topic."""

from __future__ import annotations

import gzip

import pytest

from tests.cli.conftest import Workplace

pytestmark = pytest.mark.xdist_group("processes")

FIRST = """{name: first, data: {timestamp: at, partitions: 2}, model: {kind: bernoulli, field: sold},
 inference: {minibatch: 10, forget: {half_life_seconds: 1e9}}}"""
SECOND = "{name: second, key: zip, data: {topic: first.events}, model: {kind: gaussian, fields: [price]}}"


def test_two_specs_of_one_table(workplace: Workplace, bus_url: str) -> None:
    rows = [f"{i % 4 == 0},{i}.50,0{i % 2},2024-05-01 12:00:{i:02}" for i in range(40)]
    file = workplace.folder / "flats.csv.gz"
    file.write_bytes(gzip.compress("\n".join(["sold,price,zip,at", *rows, ""]).encode()))
    specs = {name: workplace.folder / f"{name}.yaml" for name in ("first", "second")}
    for name, text in (("first", FIRST), ("second", SECOND)):
        specs[name].write_text(text)
    run = workplace.programs.run
    loaded = run("up", specs["first"], "--data", file, "--until-idle", "--bus", bus_url)
    assert loaded.err.count("flats.csv.gz: times without a zone are taken as UTC") == 1
    (found,) = run("snapshot", specs["first"], "--json", "--bus", bus_url).documents
    assert (found["n_events"], found["n_dead_lettered"]) == (40, 0)
    assert found["parameters"]["p"]["mean"] == pytest.approx(11 / 42, rel=1e-6)
    run("up", specs["second"], "--until-idle", "--bus", bus_url)
    (key,) = run("snapshot", specs["second"], "--key", "01", "--json", "--bus", bus_url).documents
    assert (key["n_events"], key["n_dead_lettered"]) == (20, 0)
    assert key["parameters"]["mean"]["mean"][0] == pytest.approx(20.5, rel=1e-2)
