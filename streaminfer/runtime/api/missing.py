"""Why a sampled posterior has nothing to show, in words for its user."""

from __future__ import annotations

from contextlib import closing

from streaminfer.bus.protocol import Bus, UnknownTopic
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.plurals import counted
from streaminfer.sampling.pooled.showing import LEAST_EFFECTIVE
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas


def why(spec: Spec, bus: Bus, schemas: Schemas) -> str | None:
    """The reason; None if no service has begun, or the posterior is of another kind."""
    if spec.sampling is None:
        return None
    try:
        with closing(Shards(spec, bus, schemas)) as source:
            newest = source.catch_up()
    except UnknownTopic:
        return None
    return None if newest is None else _why(spec.sampling, newest)


def _why(settings: Settings, newest: Snapshot) -> str:
    shown, n_bad = sampled(newest).shown, newest.counts.n_dead_lettered
    awaited = [part for part in shown.subposteriors if part.why]
    if settings.combine is not None and awaited and not shown.complete:
        which = f"{counted(len(awaited), 'subposterior')} of {settings.subposteriors}"
        return f"{which} cannot be combined yet, such as {awaited[0].subposterior}: {awaited[0].why}"
    if not shown.complete:
        return (
            "its chains are at work, and the first draws are shown once they are worth "
            f"{LEAST_EFFECTIVE} independent ones, or complete"
        )
    if n_bad:
        return f"none of its {counted(n_bad, 'event')} is good: see `streaminfer dead-letters`"
    return "there was no event to draw from"
