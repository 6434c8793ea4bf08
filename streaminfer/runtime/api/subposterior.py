"""The posterior of one subposterior, from its draws on the bus: that of all events is the combiner's."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.api.draws import settings_of
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.sampling import flat
from streaminfer.sampling.pooled.gathering import KEPT, Gathering
from streaminfer.sampling.pooled.showing import Watcher
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.tables.draws import snapshot_of
from streaminfer.variational.frontier import Frontier
from streaminfer.wire.avro import Schemas


class NoSuchSubposterior(ValueError):
    """A number beyond the subposteriors of a spec."""


def check_index(spec: Spec, index: int) -> Settings:
    """How a spec is sampled; raises NoSampler, and NoSuchSubposterior if it has no such part."""
    settings = settings_of(spec)
    if not 0 <= index < settings.subposteriors:
        rule = f"must be below {settings.subposteriors}, as inference.subposteriors says"
        raise NoSuchSubposterior(f"subposterior: {rule} (got {index})")
    return settings


def newest(spec: Spec, bus: Bus, schemas: Schemas, index: int) -> PosteriorSnapshot | None:
    """A subposterior as it is now, as its version the number of its segment from 1; None if it has no draws to show.

    Raises NoSampler, and NoSuchSubposterior if the spec has fewer.
    """
    settings = check_index(spec, index)
    size, segment = flat.size(spec.target.shapes), -1
    gathered = Gathering(settings, size)
    with closing(DrawsReader(spec, settings, size, bus, schemas, list(gathered.units(index)))) as reader:
        while not reader.at_end():
            for unit, draws, _ in reader.poll(1.0):
                gathered.take(unit, draws)
                segment = max(segment, draws.segment)
    for number in range(segment, max(-1, segment - KEPT), -1):
        found = Watcher(settings, gathered, index).look(number)
        if found is not None and found.shown.n_draws:
            made = replace(snapshot_of(spec, found, number + 1), created_at=int(time.time() * 1000))
            return PosteriorSnapshot(spec, replace(made, frontier=_frontier(gathered, index, number)))
    return None


def _frontier(gathered: Gathering, index: int, segment: int) -> Frontier:
    """Which events the draws of a segment are of."""
    newest = [window.newest for window in gathered.windows(index, segment).values()]
    spans = next(draws.frontier for draws in newest if draws is not None)
    ends, starts = {span.partition: span.end for span in spans}, {span.partition: span.start for span in spans}
    return Frontier(positions=ends, starts=starts)
