"""The work of keyed posteriors: counts under keys that are whole numbers, in the format `rows`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.workload import EVENTS_PER_ROWS
from streaminfer.bus.protocol import Bus, Output
from streaminfer.topics import formats
from streaminfer.wire.events.rows import Table, pack

KEY: Final = "id"
COUNT: Final = "k"
MINIBATCH: Final = 16
"""Records of 512 events: a minibatch of 8,192."""


@dataclass(frozen=True)
class Keyed:
    """`events` under the keys 0, 1, ... below `keys`, each as often as any other (or once more), over partitions."""

    events: int
    keys: int
    partitions: int = 4


def matrix(work: Keyed) -> NDArray[np.float64]:
    """Events (n, 2), key and count, in an order without order; the same ones every time."""
    keys = np.random.default_rng(20160).permutation(work.events) % work.keys
    return np.column_stack([keys, counts(keys)]).astype(np.float64)


def counts(keys: NDArray[np.int_]) -> NDArray[np.int_]:
    """The count that every event of a key has."""
    return keys % 5


def totals(work: Keyed) -> NDArray[np.float64]:
    """The sum of its counts for each key."""
    keys = np.arange(work.keys)
    events_of = work.events // work.keys + (keys < work.events % work.keys)
    return (events_of * counts(keys)).astype(np.float64)


def record(events: NDArray[np.float64]) -> bytes:
    return pack(formats()["rows"].schema_id, Table((KEY, COUNT), events))


def outputs(topic: str, work: Keyed) -> Iterator[Output]:
    """Records of events; all events of a key are in one partition, as `produce` does it."""
    events = matrix(work)
    for index in range(work.partitions):
        mine = events[events[:, 0] % work.partitions == index]
        for begin in range(0, len(mine), EVENTS_PER_ROWS):
            yield Output(topic, record(mine[begin : begin + EVENTS_PER_ROWS]), partition=index)


def load(bus: Bus, topic: str, work: Keyed) -> None:
    bus.publish(list(outputs(topic, work)))


def spec(name: str, work: Keyed) -> str:
    """A spec (YAML) with a topic of its own."""
    data = {"format": "rows", "partitions": work.partitions}
    model = {"kind": "poisson", "field": COUNT}
    return json.dumps({"name": name, "data": data, "key": KEY, "model": model, "inference": {"minibatch": MINIBATCH}})
