"""One record of next month, on both buses: by the real services it takes no weight and drops no key."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from streaminfer import parse_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output, Topic
from streaminfer.runtime import names
from streaminfer.variational.snapshot import Snapshot
from tests.integration.existing import Running

MONTH_MS = 30 * 86_400_000
SPECS: dict[str, dict[str, Any]] = {
    "window": {"inference": {"forget": {"window_seconds": 7200}}},
    "half life": {"inference": {"forget": {"half_life_seconds": 86_400}}},
    "keys": {"key": {"field": "city", "expire_after": 3600}},
}


@pytest.mark.parametrize("given", SPECS.values(), ids=SPECS)
def test_it_counts_for_one(bus_url: str, given: Mapping[str, Any]) -> None:
    """All of it is of the past: Kafka by default refuses what is more than an hour ahead of its own clock."""
    model = {"kind": "poisson", "field": "k"}
    spec = parse_spec({"name": "clocks", "data": {"topic": "ticks"}, "model": model, **given})
    begin = int(1000 * time.time()) - 2 * MONTH_MS

    def outputs(first: int, ahead: int = 0, n: int = 20) -> list[Output]:
        events = [json.dumps({"k": 1, "city": f"c{i % 7}"}).encode() for i in range(n)]
        return [Output("ticks", events[i], None, i % 2, (), begin + first + 100 * i + ahead) for i in range(n)]

    with open_bus(bus_url) as bus:
        bus.create([Topic("ticks", 2)])
        names.create_topics(spec, bus)
        for part in (outputs(0), outputs(2000, MONTH_MS, 1), outputs(2100)):
            bus.publish(part)
            with closing(Running(spec, bus)) as services:
                found = services.until_idle()
    check(found)


def check(found: Snapshot) -> None:
    assert (found.n_events, found.counts.n_dead_lettered, found.counts.n_expired) == (41, 0, 0)
    assert found.counts.n_keys in {0, 7}
    assert found.n_effective == pytest.approx(41, rel=1e-3)
