"""The same as `repair` for a sampled posterior: its snapshots, and what chains have on the topics of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Literal

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus, Fenced
from streaminfer.runtime import names
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.pooling.shard import SampledShard
from streaminfer.runtime.sampling.unit import OwnedUnit
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def repaired(
    spec: Spec, settings: Settings, bus: Bus, known: Schemas, agreed: Literal[True] | Callable[[str], bool]
) -> bool:
    """Whether nothing is in the way of the posterior any more. Chains step over what is in their way by themselves."""
    with ExitStack() as stack:
        units = [
            stack.enter_context(closing(OwnedUnit(spec, settings, spec.target, bus, number, known)))
            for number in range(settings.n_units)
        ]
        for unit in units:
            while not unit.restored():
                pass
        done = _posterior(spec, settings, bus, known, _newest(units), agreed)
        for unit in units:
            _tell(spec, unit)
    return done


def _newest(units: list[OwnedUnit]) -> dict[int, Segment]:
    """By subposterior, the newest segment that any of its chains knows of."""
    found: dict[int, Segment] = {}
    for unit in units:
        j, newest = unit.unit.subposterior, unit.newest
        if newest is not None and (j not in found or newest.number > found[j].number):
            found[j] = newest
    return found


def _posterior(
    spec: Spec,
    settings: Settings,
    bus: Bus,
    known: Schemas,
    newest: dict[int, Segment],
    agreed: Literal[True] | Callable[[str], bool],
) -> bool:
    where, now_ms = f"{names.topic(spec, 'posterior')}-0", int(time.time() * 1000)
    with ExitStack() as stack:
        try:
            shard = _opened(stack, spec, settings, bus, known, start_over=False)
        except Fatal as error:
            print(f"{where}: {error}")
            shard = _opened(stack, spec, settings, bus, known, start_over=True)
            if settings.source != "stream":
                shard.begin_at(newest, now_ms)
            what = "make the posterior again from the draws that are still on the bus"
        else:
            events = counted(shard.published.n_events, "event")
            what = f"continue from version {shard.published.version} with {events}, and show later draws again"
        if not shard.in_the_way:
            print(f"{where}: nothing to repair")
            return True
        for each in shard.in_the_way:
            print(f"  blocked by {each}")
        if agreed is not True and not agreed(f"{where}: {what}?"):
            return False
        try:
            shard.commit(None, now_ms)
        except Fenced as error:
            raise Fatal(f"{where}: a master has taken over meanwhile: stop `up` first ({error})") from error
    print(f"{where}: done: {what}")
    return True


def _opened(
    stack: ExitStack, spec: Spec, settings: Settings, bus: Bus, known: Schemas, start_over: bool
) -> SampledShard:
    metrics = MasterMetrics(CollectorRegistry(), spec.name)
    shard = SampledShard(spec, settings, bus, time.monotonic, metrics, known, start_over)
    stack.enter_context(closing(shard))
    while not shard.restored():
        pass
    return shard


def _tell(spec: Spec, unit: OwnedUnit) -> None:
    """What is in the way of a chain, and what its sampler does about it."""
    where = f"{names.topic(spec, 'sampler-state')}-{unit.unit.number}"
    for each in unit.in_the_way:
        print(f"  stepped over {each}")
    newest = unit.newest
    if newest is None or not unit.is_torn:
        print(f"{where}: nothing to repair")
    else:
        print(
            f"{where}: its state and its draws on {names.topic(spec, 'draws')}-{unit.unit.number} do not belong "
            f"together. Nothing is to be repaired: the sampler ends segment {newest.number} and begins the next one"
        )
