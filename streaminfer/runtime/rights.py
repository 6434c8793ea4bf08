"""The rights on a Kafka cluster that each program of a spec needs, and no others.

They follow from topics.yaml and the table of roles. To read a topic takes Read, which brings Describe with it. To write
one takes Write and DescribeConfigs: the largest record and the cleanup are asked for before anything is sent. They are
enough with STREAMINFER_TOPICS=expect. Programs that make topics need those of `topics` too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from streaminfer.runtime import names
from streaminfer.runtime.role import Roles, needed
from streaminfer.spec import Spec

TOPICS: Final = "topics"
"""The command that makes topics."""
UP: Final = "up"
"""The command that starts all services: they have its rights."""
REPAIR: Final = "repair"
RESTORE: Final = "restore"
RETRY: Final = "dead-letters"
DRAWS: Final = "draws"
ORDER: Final = ("Create", "Alter", "Read", "Write", "Describe", "DescribeConfigs")
WORKERS: Final = ("svb-worker", "svi-worker")
OWNERS: Final = ("master", "combiner", "sampler")
"""Services whose state `repair` takes in hand."""

MASTERS: Final = ("master", "combiner")
"""Services in whose place `restore` writes."""

Type = Literal["topic", "group", "transactionalId"]


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """What a right is for. With the pattern `prefix` it is all whose names begin so."""

    type: Type
    name: str
    pattern: Literal["literal", "prefix"] = "literal"


@dataclass(frozen=True, slots=True)
class Grant:
    """What one program may do with a resource, in Kafka's words."""

    role: str
    resource: Resource
    operations: tuple[str, ...]


Named = tuple[Resource, str]
"""A resource and one operation."""


def rights(spec: Spec, roles: Roles, public: Callable[[str], str] = lambda name: name) -> list[Grant]:
    """The grants of every program that a spec has; `public` is what a name is called on the cluster."""
    services = [role.name for role in needed(roles, spec)]
    said = [name for each in names.declared(spec).values() for name in each.everyone]
    commands = [name for name in dict.fromkeys(said) if name not in roles and (name != DRAWS or spec.sampling)]
    wanted = {name: list(_of_topics(spec, name)) for name in (*services, *commands)}
    for role in needed(roles, spec):
        wanted[role.name] += _of_service(spec, role.name, role.group(spec), role.writer and role.writer(spec))
    for command, more in _of_commands(spec).items():
        wanted[command] = [*wanted.get(command, ()), *more]
    wanted[REPAIR] += [each for name in OWNERS for each in wanted.get(name, ()) if each[0].type != "group"]
    wanted[RESTORE] += [each for name in MASTERS for each in wanted.get(name, ()) if each[0].type == "transactionalId"]
    wanted[TOPICS] = list(_of_maker(spec))
    wanted[UP] += [each for name in (*services, "produce", TOPICS) for each in wanted.get(name, ())]
    return [
        Grant(name, Resource(kind.type, public(kind.name), kind.pattern), operations)
        for name, found in wanted.items()
        for kind, operations in _merged(found).items()
    ]


def _of_topics(spec: Spec, role: str) -> Iterator[Named]:
    """By the declaration. An external topic is never written to."""
    for short, each in names.declared(spec).items():
        external = short == "events" and spec.data.topic is not None
        topic = Resource("topic", names.data_topic(spec) if short == "events" else each.topic(spec.name))
        if role in each.readers:
            yield topic, "Read"
        if role in each.writers and not external:
            yield topic, "Write"
            yield topic, "DescribeConfigs"
        if role in each.describers:
            yield topic, "Describe"


def _of_service(spec: Spec, role: str, group: str, writer: str | None) -> Iterator[Named]:
    yield Resource("group", group), "Read"
    if writer is not None:
        yield _id("transactionalId", writer), "Write"
    if _waits_for_marks(spec, role):
        yield Resource("group", names.until_idle_group(spec)), "Describe"
    if role == "monitor" and spec.sampling is not None:
        yield Resource("group", names.sampler_group(spec)), "Describe"


def _waits_for_marks(spec: Spec, role: str) -> bool:
    """Whether a service looks for the ends that `up --until-idle` waits for."""
    if role in WORKERS:
        return spec.inference.linger_ms == 0
    if spec.sampling is None:
        return role == "master" and spec.waits_for_rest
    return role in ({"sampler"} if spec.sampling.source == "stream" else {"master", "combiner"})


def _of_commands(spec: Spec) -> Mapping[str, list[Named]]:
    """The groups and writers of commands."""
    until_idle = names.until_idle_group(spec)
    found = {
        UP: [
            (Resource("group", until_idle), "Read"),
            (Resource("transactionalId", until_idle), "Write"),
            (Resource("topic", names.data_topic(spec)), "Read"),
        ]
    }
    if spec.data.topic is None:
        loaders, again = names.loaders(spec), names.dead_letters_writer(spec)
        found["produce"] = [
            (_id("group", loaders), "Read"),
            (_id("transactionalId", loaders), "Write"),
            (Resource("topic", names.data_topic(spec)), "Read"),  # its place in a file is a position of that topic
        ]
        found[RETRY] = [(Resource("transactionalId", again), "Write")]
    return found


def _of_maker(spec: Spec) -> Iterator[Named]:
    own = Resource("topic", f"{spec.name}.", "prefix")
    yield from ((own, operation) for operation in ("Create", "Alter", "Describe", "DescribeConfigs"))
    if spec.data.topic is not None:
        yield Resource("topic", spec.data.topic), "Describe"


def _id(kind: Type, name: str) -> Resource:
    """Of one name, or of all that begin with it if it ends with a dot."""
    return Resource(kind, name, "prefix" if name.endswith(".") else "literal")


def _merged(found: Iterable[Named]) -> dict[Resource, tuple[str, ...]]:
    """All operations of each resource; Read, Write and Alter bring Describe with them."""
    operations: dict[Resource, set[str]] = {}
    for resource, operation in found:
        operations.setdefault(resource, set()).add(operation)
    for each in operations.values():
        if each & {"Read", "Write", "Alter"}:
            each.discard("Describe")
    return {resource: tuple(sorted(each, key=ORDER.index)) for resource, each in sorted(operations.items())}
