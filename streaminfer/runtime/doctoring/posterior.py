"""The posterior: whose it is, whether it can be restored, how far it is behind, and who works on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from streaminfer.bus.protocol import Bus, Partition, UnknownTopic
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.doctoring.finding import Finding, good, note, wrong
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.lag import behind
from streaminfer.runtime.monitoring.pulse import GONE_MS, SILENT_MS
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.role import Roles, needed
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import beats
from streaminfer.wire.beats import Beat
from streaminfer.wire.errors import WireError
from streaminfer.wire.snapshots import TOPIC, OtherSpec, iso

AHEAD_MS: Final = 5_000
"""How much a clock may be ahead of this one."""
BACK: Final = 2000
"""Positions of the health topic that are looked at."""
REPAIR: Final = "run `streaminfer repair SPEC`, which shows what is in the way"


def look(spec: Spec, bus: Bus, roles: Roles) -> Iterator[Finding]:
    """All about the posterior."""
    found = _beats(spec, bus)
    newest: Snapshot | None = None
    try:
        with closing(Shards(spec, bus, schemas.look_up(spec, bus, [TOPIC]))) as source:
            newest = source.catch_up()
            yield from _posterior(spec, bus, source, newest)
    except OtherSpec as error:
        yield wrong("fingerprint", str(error), "give the spec a new name: `streaminfer rebuild SPEC --as NEW`")
    except UnknownTopic:
        yield note("posterior", "its topic does not exist yet", "start it with `streaminfer up`")
    yield from _services(spec, found, roles)
    yield _clock(found, newest)
    if newest is not None:
        yield from _lag(spec, bus, newest)


def _posterior(spec: Spec, bus: Bus, source: Shards, newest: Snapshot | None) -> Iterator[Finding]:
    if newest is None:
        if any(source.positions):
            yield wrong("posterior", "its topic has records, and no whole snapshot of all shards", REPAIR)
        else:
            yield note("posterior", "there is no snapshot yet", "start it with `streaminfer up`")
        return
    yield good("fingerprint", f"{spec.fingerprint}, that of the posterior")
    counts = newest.counts
    said = f"version {newest.version} of {iso(newest.created_at)}, {counted(newest.n_events, 'event')}"
    yield good("posterior", said)
    try:
        topic_identity.check(spec, bus, source.snapshots)
    except Fatal as error:
        yield wrong("posterior", str(error), "give the spec a new name")
    for n, what, remedy in (
        (counts.n_lost, "positions were removed by retention before they were read", "raise retention, add workers"),
        (counts.n_rejected, "events were rejected", "see docs/architecture.md, the frontier"),
        (counts.n_dead_lettered, "events are dead letters", "run `streaminfer dead-letters SPEC --summary`"),
    ):
        if n:
            yield note("posterior", f"{n:,} {what}", remedy)


def _beats(spec: Spec, bus: Bus) -> list[Beat]:
    """The newest beat of each process that has not said that it ends."""
    partition = Partition(names.topic(spec, beats.TOPIC), 0)
    try:
        start, end = bus.starts(partition.topic)[0], bus.ends(partition.topic)[0]
    except UnknownTopic:
        return []
    known, found = schemas.look_up(spec, bus, [beats.TOPIC]), dict[bytes, Beat]()
    with bus.reader({partition: max(start, end - BACK)}) as reader:
        while reader.position(partition) < end:
            for record in (each for part in reader.poll(1.0).slices for each in part.records):
                try:
                    if record.value is None:
                        found.pop(record.key or b"", None)
                    else:
                        found[record.key or b""] = beats.decode(record.key, record.value, known)
                except WireError:
                    continue
    return list(found.values())


def _services(spec: Spec, found: list[Beat], roles: Roles) -> Iterator[Finding]:
    """Who lives. That nobody does may be on purpose; that someone has fallen silent is not."""
    now = int(time.time() * 1000)
    for role in needed(roles, spec):
        mine = [beat for beat in found if beat.service == role.name and now - beat.at < GONE_MS]
        alive = [beat for beat in mine if now - beat.at < SILENT_MS]
        silent = [beat for beat in mine if beat not in alive]
        for beat in silent:
            yield wrong(
                "services",
                f"{role.name} {beat.instance} on {beat.host} has been silent for {(now - beat.at) / 1000:.0f} s",
                "look at its log; it is stuck, was killed, or cannot reach the bus",
            )
        unready = [beat for beat in alive if not beat.ready]
        if alive:
            not_ready = f", {len(unready)} not ready" if unready else ""
            yield good("services", f"{role.name}: {counted(len(alive), 'process', 'processes')}{not_ready}")
        elif not silent:
            yield note("services", f"{role.name}: none is running", f"start it: `streaminfer run {role.name} SPEC`")


def _clock(found: list[Beat], newest: Snapshot | None) -> Finding:
    """Whether something was written later than now."""
    stamps = [(beat.at, f"{beat.service} on {beat.host}") for beat in found]
    if newest is not None:
        stamps.append((newest.created_at, "the master"))
    if not stamps:
        return note("clock", "nobody has written a time to compare with")
    at, who = max(stamps)
    ahead = at - time.time() * 1000
    if ahead > AHEAD_MS:
        return wrong("clock", f"that of {who} is {ahead / 1000:.0f} s ahead of this machine's", "set both by NTP")
    return good("clock", "nothing was written later than now")


def _lag(spec: Spec, bus: Bus, newest: Snapshot) -> Iterator[Finding]:
    """Positions that are not in the posterior, of those that are in the log."""
    topic = names.data_topic(spec)
    try:
        starts, ends = bus.starts(topic), bus.ends(topic)
    except UnknownTopic:
        return  # `topics` says so
    n = behind(newest.frontier, bus, topic)
    yield note("lag", f"{counted(n, 'position')} behind the log") if n else good("lag", "all of the log is in it")
    for index, start in starts.items():
        at = newest.frontier.positions.get(index)
        if at is not None and at > ends[index]:
            remedy = "the topic was made again or the bus has lost records: give the spec a new name"
            yield wrong("lag", f"{topic}-{index}: the posterior is at {at}, and the log ends at {ends[index]}", remedy)
        elif at is not None and at < start:
            remedy = "raise the retention of the topic, or add workers"
            yield wrong("lag", f"{topic}-{index}: {start - at:,} positions were removed before they were read", remedy)
