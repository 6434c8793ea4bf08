"""A data topic that was deleted and created again, on both buses: a posterior of the old one ends with an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streaminfer.bus.protocol import Output
from streaminfer.cli import main
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.service import Fatal
from tests.integration.existing import Place
from tests.remaking import delete_topic


@pytest.fixture
def place(bus_url: str, tmp_path: Path) -> Iterator[Place]:
    with closing(Place(tmp_path, bus_url, partitions=1)) as made:
        yield made


def fill(place: Place, n: int, count: int) -> None:
    place.publish(*(Output("orders", place.event(count), partition=0) for _ in range(n)))


@pytest.mark.parametrize("n", [100, 200], ids=["as many", "more"])
def test_the_new_topic_is_not_read_from_the_middle(place: Place, n: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With as many records as the frontier says `--until-idle` would be satisfied at once."""
    fill(place, 100, 1)
    with place.running() as services:
        before = services.until_idle()
        assert before.frontier.topic_id == place.bus.topic_id("orders")
    delete_topic(place.bus, "orders")
    place.bus.create([place.topic])
    fill(place, n, 1000)
    assert main(["up", str(place.spec_file), "--bus", place.url, "--until-idle"]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "orders: the topic was deleted and created again" in line
    assert "give the spec a new name" in line
    with closing(Follower(place.spec, place.bus)) as follower:
        found = follower.catch_up()
    assert found is not None
    assert (found.n_events, found.payload.statistics[0], found.version) == (100, 100, before.version)


def test_services_at_work_notice(place: Place) -> None:
    fill(place, 100, 1)
    with place.running() as services:
        services.until_idle()
        delete_topic(place.bus, "orders")
        place.bus.create([place.topic])
        fill(place, 200, 1000)
        with pytest.raises(Fatal, match="created again"):
            services.until_idle()
    with closing(Follower(place.spec, place.bus)) as follower:
        found = follower.catch_up()
    assert found is not None
    assert found.payload.statistics[0] == 100
