"""Why a sampled posterior has nothing to show, in words for its user."""

from __future__ import annotations

from contextlib import closing

from streaminfer.bus.protocol import Bus, UnknownTopic
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.plurals import counted
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.pooled.showing import LEAST_EFFECTIVE
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas


def _of_stream(settings: Settings, step: int) -> str:
    """How many events are missing: each minibatch of them is one step."""
    setup, minibatch = setting_up.of_stream(settings, True), settings.minibatch or 1
    total = setup.warmup + settings.draws * setup.thin
    left = counted(max(0, total - step) * minibatch, "event")
    first = f"the first draw is made after {counted(setup.warmup + setup.thin, 'step')}"
    return (
        f"its chains have taken {step:,} of the {counted(total, 'step')} of their segment, one for each "
        f"{counted(minibatch, 'event')}, and {first}: {left} are missing until it is complete; set inference.draws, "
        "thin or warmup lower if there are fewer"
    )


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
    hopeful = not shown.complete or any(part.n_events for part in awaited)
    if settings.combine is not None and awaited and hopeful:
        which = f"{counted(len(awaited), 'subposterior')} of {settings.subposteriors}"
        return f"{which} cannot be combined yet, such as {awaited[0].subposterior}: {awaited[0].why}"
    if not shown.complete:
        worth = f"draws are shown once they are worth {LEAST_EFFECTIVE} independent ones, or complete"
        step = min((chain.step for chain in shown.chains), default=0)
        taken = f"its chains have taken {counted(step, 'step')}, and go on while `streaminfer up` runs"
        return f"{_of_stream(settings, step) if settings.source == 'stream' else taken}; {worth}"
    if n_bad:
        return f"none of its {counted(n_bad, 'event')} is good: see `streaminfer dead-letters`"
    return "there was no event to draw from"
