"""The draws of a combined posterior as records of their topic, beside the snapshot that shows them."""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.bus.protocol import Bus, Output
from streaminfer.runtime import names
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.pooled.shown import Sampled
from streaminfer.sampling.units import Span
from streaminfer.spec import Spec
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas
from streaminfer.wire.sampled import draws as wire

TOPIC: Final = "combined"


def outputs(spec: Spec, before: Snapshot, now: Snapshot, bus: Bus, schemas: Schemas) -> list[Output]:
    """The draws of a new combination, and tombstones of those before it; nothing if it is the same."""
    old, new = (sampled(each).shown.combined for each in (before, now))
    if new is None or (old is not None and old.round == new.round):
        return []
    topic, rest = names.topic(spec, TOPIC), (0, 0, bus.max_record_bytes, schemas, TOPIC)
    records = wire.encode(_draws(spec, sampled(now), now), *rest)
    made = [Output(topic, data, key, 0) for key, data in records]
    kept = {key for key, _ in records}
    gone = [] if old is None else wire.encode(_draws(spec, sampled(before), before), *rest)
    return [*made, *(Output(topic, None, key, 0) for key, _ in gone if key not in kept)]


def _draws(spec: Spec, found: Sampled, snapshot: Snapshot) -> Draws:
    """Their segment is the number of the round."""
    shown, frontier = found.shown, snapshot.frontier
    combined = shown.combined
    number = 0 if combined is None else combined.round
    n = len(found.draws)
    return Draws(
        spec.fingerprint, 0, 0, number, "done", 0, n, 1, 0.0, 0.0, found.draws, np.ones(n),
        np.empty(0), shown.counters, snapshot.counts.n_events, snapshot.counts.n_dead_lettered, snapshot.counts.n_lost,
        tuple(Span(p, frontier.starts.get(p, 0), end) for p, end in sorted(frontier.positions.items())),
    )  # fmt: skip
