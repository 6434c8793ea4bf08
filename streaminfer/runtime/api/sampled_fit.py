"""A sampled posterior from rows at hand: all chains one after the other, with the draws that services would make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streaminfer.combining import rounds
from streaminfer.combining.answering import answer
from streaminfer.combining.part import Refused
from streaminfer.combining.questions import Question
from streaminfer.combining.rounds import Given, Replies, showing_of
from streaminfer.combining.windows import windows
from streaminfer.models.events import Events
from streaminfer.models.model import Matrix
from streaminfer.models.targets.reading import reading_of
from streaminfer.runtime.api.snapshot import PosteriorSnapshot, events_of
from streaminfer.sampling import flat
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.chains.prepared import Prepared, of_data
from streaminfer.sampling.chains.published import Steps, published
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.showing import Showing, Watcher
from streaminfer.sampling.pooled.shown import Fixed
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.states import waiting
from streaminfer.sampling.units import Span, Unit
from streaminfer.spec import Spec
from streaminfer.tables.draws import snapshot_of
from streaminfer.variational.forgetting.reached import believe


def fit(spec: Spec, settings: Settings, rows: Iterable[Mapping[str, Any]]) -> PosteriorSnapshot:
    """The posterior of rows as one segment; raises RowError at the first that cannot be read.

    With several subposteriors rows are dealt out to them in turn, as to partitions.
    """
    shares = _shares(spec, settings, rows)
    found = _gathered(spec, settings, shares)
    shown = Watcher(settings, found).look(0) if settings.combine is None else _combined(spec, settings, shares, found)
    if shown is None:
        raise RuntimeError("complete chains have nothing to show")
    return PosteriorSnapshot(spec, snapshot_of(spec, shown))


def gathered(spec: Spec, settings: Settings, rows: Iterable[Mapping[str, Any]]) -> Gathering:
    """All draws of all chains."""
    return _gathered(spec, settings, _shares(spec, settings, rows))


def _shares(spec: Spec, settings: Settings, rows: Iterable[Mapping[str, Any]]) -> list[Matrix]:
    """By subposterior, what the density needs of its events."""
    if settings.source == "stream":
        raise ValueError("inference.source: rows at hand are no stream: leave it out for fit")
    events = _events(spec, list(rows))
    if events.n < settings.subposteriors:
        least = "one event" if settings.subposteriors == 1 else f"{settings.subposteriors} events, one a subposterior"
        raise ValueError(f"there are {events.n} rows: a sampled posterior needs at least {least}")
    target, reading, count = spec.target, reading_of(spec.target), settings.subposteriors
    parts = [events.only(np.arange(j, events.n, count)) if count > 1 else events for j in range(count)]
    return [np.ascontiguousarray(reading.rows(target, each)) for each in parts]


def _gathered(spec: Spec, settings: Settings, shares: Sequence[Matrix]) -> Gathering:
    target, reading = spec.target, reading_of(spec.target)
    found = Gathering(settings, flat.size(target.shapes))
    for j, rows in enumerate(shares):
        density = reading.density(target, rows, 1 / len(shares))
        setup = setting_up.all_at_once(density, settings, Key(settings.seed, "steps", j))
        fixed = of_data(density, settings, setup)
        for unit in found.units(j):
            prepared = Prepared(density, settings, Key(settings.seed, "steps", unit), setup, fixed)
            found.take(unit, _chain(spec, prepared, unit))
    return found


def _combined(spec: Spec, settings: Settings, shares: Sequence[Matrix], found: Gathering) -> Showing:
    """All subposteriors as one, with answers from the rows."""
    how, count = settings.combine, settings.subposteriors
    if how is None:
        raise ValueError("there is no combiner")
    fixed = [Fixed(j, 0, (Span(j, 0, len(rows)),), 0) for j, rows in enumerate(shares)]
    held = windows(found, fixed, spec.target, how.window, count)
    lacking = next((each.shown for each in held if each.part is None), None)
    if lacking is not None:
        raise Refused(lacking.why, lacking.subposterior)
    given = Given(held, spec.target, how, count, settings.seed, 1)

    def ask(question: Question) -> Replies:
        asked = [each.subposterior for each in question.shares]
        return {j: answer(spec.target, shares[j], question, j, count).values for j in asked}

    return showing_of(held, rounds.made(given, ask), found, complete=True)


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
    setup, n_events, place = prepared.setup, prepared.density.n, Unit.numbered(unit, prepared.settings)
    state = replace(
        waiting(spec.fingerprint, unit), segment=0, phase=chain.phase, step=chain.step, thin=setup.thin,
        n_events=n_events, counters=chain.counters, frontier=(Span(place.subposterior, 0, n_events),),
    )  # fmt: skip
    width = flat.size(spec.target.shapes)
    return published(state, place, 0, drawn, width, Steps(setup.size, setup.noise))
