"""The verdict from what is on the bus now, read once. No monitor need run, but only one that ran has measured."""

from __future__ import annotations

from typing import NamedTuple

from streaminfer.bus.protocol import Bus, UnknownTopic
from streaminfer.measuring.judging.verdict import State, Verdict, verdict
from streaminfer.runtime import names
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.monitoring.notes import BACK, Notes
from streaminfer.runtime.monitoring.standing import state_of
from streaminfer.runtime.registry import schemas
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas


class Read(NamedTuple):
    """What there was."""

    state: State
    verdict: Verdict


def read(spec: Spec, bus: Bus, now: int) -> Read:
    """`now` is in milliseconds since 1970."""
    topics = names.there(spec, bus, BACK)
    ids = schemas.look_up(spec, bus, ["posterior", *topics])
    notes = Notes(spec, bus, ids, topics)
    try:
        notes.catch_up()
    finally:
        notes.close()
    silent = [instance for _, instance in notes.silent(now)]
    state = state_of(spec, bus, _newest(spec, bus, ids), silent, now)
    return Read(state, verdict(state, notes.measured.values(), spec.monitor))


def _newest(spec: Spec, bus: Bus, ids: Schemas) -> Snapshot | None:
    try:
        shards = Shards(spec, bus, ids)
    except UnknownTopic:
        return None
    try:
        return shards.catch_up()
    finally:
        shards.close()
