"""An alarm of drift, and the reaction to it, from a CSV file through `up --until-idle`."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Partition
from streaminfer.runtime import names
from streaminfer.wire import increments
from streaminfer.wire.events.formats import max_events
from tests.faults.buses import kafka_later
from tests.faults.programs import Programs, document

EVENTS, CHANGE, N = 2096, 1600, 16
REACT = {"half_life_events": 40.0, "for_events": 100}


def sizes(path: Path, url: str) -> list[int]:
    """Events of every increment that continues the one before: on Kafka, positions have holes."""
    spec = load_spec(path)
    partition = Partition(names.topic(spec, "increments"), 0)
    found, frontier = [], 0
    with closing(open_bus(url)) as bus:
        reader = bus.reader({partition: bus.starts(partition.topic)[0]})
        while reader.position(partition) < bus.ends(partition.topic)[0]:
            for part in reader.poll(1.0).slices:
                for record in part.records:
                    value = increments.decode(record.value, max_events=max_events(spec)).value
                    if value["begin"] == frontier:
                        found.append(int(value["n_events"]))
                        frontier = value["end"]
        reader.close()
    return found


@kafka_later
def test_the_alarm_comes_and_the_posterior_forgets_from_there(programs: Programs, bus_url: str) -> None:
    """Counts near 5, then near 60, which are improbable under the prior too: however fresh a worker's base is."""
    rng = np.random.default_rng(4)
    k = np.r_[rng.poisson(5, CHANGE), rng.poisson(60, EVENTS - CHANGE)]
    data = programs.folder / "data.csv"
    data.write_text("k\n" + "\n".join(map(str, k)) + "\n")
    spec = programs.folder / "spec.yaml"
    drift = {"events_per_false_alarm": 1e6, "block_events": N, "react": REACT}
    inference = {"minibatch": N, "linger_ms": 0}
    model = {"kind": "poisson", "field": "k"}
    spec.write_text(json.dumps({"name": "drifts", "data": {"partitions": 1}, "model": model, "inference": inference,
                                "drift": drift}))  # fmt: skip
    up = programs.run("up", spec, "--data", data, "--until-idle", "--bus", bus_url)
    found = document(spec, bus_url)
    assert found["n_events"] == EVENTS
    assert found["drift"]["n_alarms"] == 1
    at = found["drift"]["alarm_at"]
    assert CHANGE < at <= CHANGE + 15 * N
    assert f"drift: alarm 1 after {at:,} events: scores fell; forgetting faster" in up.err
    total = weight = 0.0
    i = 0
    for n in sizes(spec, bus_url):  # what the reaction is, once it is known when it began
        kept = 0.5 ** (min(n, max(0, at + REACT["for_events"] - i)) / REACT["half_life_events"]) if i >= at else 1.0
        total, weight = kept * total + k[i : i + n].sum(), kept * weight + n
        i += n
    assert i == EVENTS
    np.testing.assert_allclose(found["natural"], [1 + total, 1 + weight], rtol=1e-9)
    assert found["n_effective"] == pytest.approx(weight, rel=1e-9)
