"""A sampled posterior from rows at hand: all chains one after the other, with the draws that services would make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from streaminfer.models.events import Events
from streaminfer.models.targets.reading import reading_of
from streaminfer.runtime.api.snapshot import PosteriorSnapshot, events_of
from streaminfer.sampling import flat
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.chains.prepared import Prepared, anchored
from streaminfer.sampling.chains.published import Steps, published
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.gathering import Gathering
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.showing import Showing, Watcher
from streaminfer.sampling.states import waiting
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.tables.draws import snapshot_of
from streaminfer.variational.forgetting.reached import believe


def fit(spec: Spec, settings: Settings, rows: Iterable[Mapping[str, Any]]) -> PosteriorSnapshot:
    """The posterior of rows as one segment of one partition; raises RowError at the first that cannot be read."""
    found: Showing | None = Watcher(settings, gathered(spec, settings, rows)).look(0)
    if found is None:
        raise RuntimeError("complete chains have nothing to show")
    return PosteriorSnapshot(spec, snapshot_of(spec, found))


def gathered(spec: Spec, settings: Settings, rows: Iterable[Mapping[str, Any]]) -> Gathering:
    """All draws of all chains."""
    if settings.subposteriors > 1:
        raise ValueError(
            f"inference.subposteriors: rows are events of one partition, so there is one subposterior, not "
            f"{settings.subposteriors}: leave it out for fit"
        )
    if settings.source == "stream":
        raise ValueError("inference.source: rows at hand are no stream: leave it out for fit")
    events = _events(spec, list(rows))
    if not events.n:
        raise ValueError("there are no rows: a sampled posterior needs at least one event")
    target, reading = spec.target, reading_of(spec.target)
    density = reading.density(target, np.ascontiguousarray(reading.rows(target, events)), 1.0)
    found = Gathering(settings, flat.size(target.shapes))
    setup = setting_up.all_at_once(density, settings, Key(settings.seed, "steps"))
    fixed = anchored(density, setup)
    for unit in range(settings.chains):
        prepared = Prepared(density, settings, Key(settings.seed, "steps", unit), setup, fixed)
        found.take(unit, _chain(spec, prepared, unit))
    return found


def _events(spec: Spec, rows: list[Mapping[str, Any]]) -> Events:
    """Rows as events of the window, if there is one."""
    events, forget = events_of(spec.event_fields, rows), spec.inference.forget or {}
    if "window_events" in forget:
        return events.only(np.arange(events.n)[-int(forget["window_events"]) :])
    if "window_seconds" in forget:
        events, seconds = events.parted()
        times = believe(seconds, ()).times if len(seconds) else seconds
        inside = np.flatnonzero(times > times.max(initial=0.0) - forget["window_seconds"])
        return events.only(inside)
    return events


def _chain(spec: Spec, prepared: Prepared, unit: int) -> Draws:
    """All draws of one chain."""
    chain, drawn = chains.begin(prepared, None), []
    while not chain.done:
        chain, part = chains.advance(prepared, chain)
        drawn.append(part)
    setup, n_events = prepared.setup, prepared.density.n
    state = replace(
        waiting(spec.fingerprint, unit), segment=0, phase=chain.phase, step=chain.step, thin=setup.thin,
        n_events=n_events, counters=chain.counters,
    )  # fmt: skip
    width = flat.size(spec.target.shapes)
    place = Unit.numbered(unit, prepared.settings)
    return published(state, place, 0, drawn, width, Steps(setup.size, setup.noise))
