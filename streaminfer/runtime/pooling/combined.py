"""The draws of a combined posterior as records of their topic, beside the snapshot that shows them."""

from __future__ import annotations

import numpy as np

from streaminfer.bus.protocol import Bus, Output
from streaminfer.runtime import names
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.pooled.shown import Sampled
from streaminfer.sampling.units import Span
from streaminfer.spec import Spec
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import draws as wire
from streaminfer.wire.avro import Schemas


def outputs(spec: Spec, before: Snapshot, now: Snapshot, bus: Bus, schemas: Schemas) -> list[Output]:
    """The draws of a new combination, and tombstones of those before it; nothing if it is the same."""
    old, new = (sampled(each).shown.combined for each in (before, now))
    if new is None or (old is not None and old.round == new.round):
        return []
    topic, most = names.topic(spec, "combined"), bus.max_record_bytes
    records = wire.encode(_draws(spec, sampled(now), now), 0, 0, most, schemas)
    made = [Output(topic, data, key, 0) for key, data in records]
    kept = {key for key, _ in records}
    gone = [] if old is None else wire.encode(_draws(spec, sampled(before), before), 0, 0, most, schemas)
    return [*made, *(Output(topic, None, key, 0) for key, _ in gone if key not in kept)]


def _draws(spec: Spec, found: Sampled, snapshot: Snapshot) -> Draws:
    """The segment is the version that shows them first."""
    shown, frontier = found.shown, snapshot.frontier
    combined = shown.combined
    number = 0 if combined is None else combined.round
    n = len(found.draws)
    return Draws(
        spec.fingerprint, 0, 0, number, "done" if n else "waiting", 0, n, 1, 0.0, 0.0, found.draws, np.ones(n),
        np.empty(0), shown.counters, snapshot.counts.n_events, snapshot.counts.n_dead_lettered, snapshot.counts.n_lost,
        tuple(Span(p, frontier.starts.get(p, 0), end) for p, end in sorted(frontier.positions.items())),
    )  # fmt: skip
