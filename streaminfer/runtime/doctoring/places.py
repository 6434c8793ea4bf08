"""The topics of a spec and what else stands on the bus: declarations, rights, schemas, groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, runtime_checkable

from streaminfer.bus.declaration import missing
from streaminfer.bus.protocol import Bus, BusError, TopicMismatch, UnknownTopic
from streaminfer.runtime import names
from streaminfer.runtime.doctoring.finding import Finding, good, note, wrong
from streaminfer.runtime.registry import schemas
from streaminfer.spec import Spec

APPLY: Final = "run `streaminfer topics SPEC --apply`, or have them made by who may"
READ: Final = frozenset({"READ", "DESCRIBE"})
WRITE: Final = frozenset({"WRITE", "DESCRIBE"})


@runtime_checkable
class Guarded(Protocol):
    """A bus that can say what this user may do."""

    def allowed(self, topic: str) -> frozenset[str] | None:
        """The operations that this user may do with a topic; None if the broker does not say."""


def topics(spec: Spec, bus: Bus) -> Iterator[Finding]:
    """Each topic against its declaration."""
    there = bus.topics()
    n_good = 0
    for declared in names.topics_on(spec, bus):
        kept = there.get(declared.name)
        try:
            lacking = missing(declared, kept)
        except TopicMismatch as error:
            yield wrong("topics", str(error), "change the topic (kafka-configs), or make it again")
            continue
        if kept is None:
            yield wrong("topics", f"{declared.name} is missing", APPLY)
        elif lacking:
            yield wrong("topics", f"{declared.name} has {kept.partitions} of {declared.partitions} partitions", APPLY)
        else:
            n_good += 1
    if n_good:
        yield good("topics", f"{n_good} are as declared")
    if spec.data.topic is not None:
        yield _external(spec.data.topic, bus)


def _external(topic: str, bus: Bus) -> Finding:
    try:
        return good("topics", f"{topic} is external, with {len(bus.starts(topic))} partitions")
    except UnknownTopic:
        remedy = "its owner must make it; is data.topic correct, and --bus?"
        return wrong("topics", f"{topic}, which data.topic names, does not exist or may not be seen", remedy)


def rights(spec: Spec, bus: Bus, role: str | None) -> Iterator[Finding]:
    """What this user may do with each topic; with a role, whether that is enough for it."""
    if not isinstance(bus, Guarded):
        yield good("rights", "whoever may write to the directory of this bus has all of them")
        return
    shown = list[str]()
    for short, declared in names.declared(spec).items():
        topic = spec.data.topic if short == "events" and spec.data.topic else declared.topic(spec.name)
        try:
            allowed = bus.allowed(topic)
        except BusError as error:
            yield note("rights", f"{topic}: what this user may do is not known: {error}")
            continue
        if allowed is None:
            yield note("rights", f"{topic}: the broker does not say what this user may do")
            continue
        needed = (READ if role in declared.readers else frozenset()) | (
            WRITE if role in declared.writers else frozenset()
        )
        lacking = sorted(needed - allowed)
        if lacking:
            what = f"{topic}: {role} needs {' and '.join(lacking)} and this user does not have it"
            yield wrong("rights", what, f"grant it: kafka-acls --add --topic {bus.public_name(topic)} --operation …")
        may = [word for word, rights in (("read", READ), ("write", WRITE)) if rights <= allowed]
        shown.append(f"{short} {' and '.join(may) if may else 'nothing'}")
    if shown:
        yield good("rights", f"this user may: {', '.join(shown)}")


def schema_ids(spec: Spec, bus: Bus) -> Iterator[Finding]:
    """What the schema registry has, if there is one."""
    registered = schemas.statuses(spec, bus)
    if registered is None:
        yield good("schemas", "no registry is set; records have the declared ids")
        return
    for short, found in registered.items():
        if found.id is None:
            yield wrong(
                "schemas",
                f"{names.topic(spec, short)}: subject {found.subject}: {found.status}",
                "run `streaminfer topics SPEC --apply`, or set the compatibility of the subject to what it allows",
            )
    n_good = sum(found.id is not None for found in registered.values())
    if n_good:
        yield good("schemas", f"{n_good} are registered")


def groups(spec: Spec, bus: Bus) -> Iterator[Finding]:
    """Positions that groups have kept, which must be in the log."""
    topic = names.data_topic(spec)
    for group in (names.worker_group(spec), names.master_group(spec)) if spec.sampling is None else ():
        kept = bus.committed(group)
        ends = {partition.topic: bus.ends(partition.topic) for partition in kept}
        beyond = [each for each, at in kept.items() if at.offset > ends[each.topic].get(each.index, 0)]
        for partition in sorted(beyond):
            yield wrong(
                "groups",
                f"{group} has read to {kept[partition].offset} of {partition}, which ends at "
                f"{ends[partition.topic].get(partition.index, 0)}",
                "the topic was made again or the bus has lost records: give the spec a new name",
            )
        if not beyond:
            lag = sum(ends[each.topic].get(each.index, 0) - at.offset for each, at in kept.items())
            said = f"{lag:,} positions behind" if kept else "has not kept a position yet"
            yield good("groups", f"{group}: {said}" + ("" if kept else f" in {topic}"))
