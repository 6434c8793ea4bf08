"""The bare limit of keyed posteriors: a dict of the same keys to rows of the same numbers, from the same records.

`python -m benchmarks.contenders.key_dict URL TOPIC`. It keeps nothing and promises nothing.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.processes import resident
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Partition
from streaminfer.wire.events.rows import unpack


@dataclass(frozen=True)
class Held:
    """What was read in how many seconds, the memory it takes, and the sum of all counts, which shows that it was."""

    events: int
    keys: int
    seconds: float
    bytes: int
    total: float


def main(url: str, topic: str) -> Held:
    rows: dict[bytes, NDArray[np.float64]] = {}
    with open_bus(url) as bus:
        ends = {Partition(topic, index): end for index, end in bus.ends(topic).items()}
        before, began, events = resident(os.getpid()), time.perf_counter(), 0
        with bus.reader(dict.fromkeys(ends, 0)) as reader:
            while any(reader.position(place) < end for place, end in ends.items()):
                for part in reader.poll(1.0).slices:
                    for record in part.records:
                        events += _add(rows, unpack(record.value).values, float(record.timestamp))
        seconds, taken = time.perf_counter() - began, resident(os.getpid()) - before
    return Held(events, len(rows), seconds, taken, float(sum(row[4] for row in rows.values())))


def _add(rows: dict[bytes, NDArray[np.float64]], events: NDArray[np.float64], stamp: float) -> int:
    """Events, newest timestamp, weight, newest time, then Poisson's statistics: what a master holds of a key."""
    for key, k in events.tolist():
        label, found = b"%d" % key, np.array([1.0, stamp, 1.0, stamp, k, 1.0, -math.lgamma(k + 1)])
        if label in rows:
            held = rows[label]
            found += held
            found[1] = found[3] = max(held[1], stamp)
        rows[label] = found
    return len(events)


if __name__ == "__main__":
    print(json.dumps(asdict(main(sys.argv[1], sys.argv[2]))), flush=True)
