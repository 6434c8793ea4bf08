"""The schemas of a spec's topics in the registry that the environment names, if it names one.

It is asked once, at the start: nothing needs it later. Only the schemas of Avro events are asked for when the first
event of an id comes, and again after a while if it was not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names, provide
from streaminfer.runtime.registry.settings import earlier_ids, settings_from
from streaminfer.spec import Spec
from streaminfer.topics import formats, read
from streaminfer.wire.avro import Schemas, earlier_texts, schema_text

if TYPE_CHECKING:
    from streaminfer.runtime.registry.client import Registry

LOOKUP_S = 3.0
"""Seconds for the schema of an id: its reader holds partitions meanwhile."""
UNKNOWN_S = 30.0
"""Seconds for which an id that the registry does not know is not asked for again."""
MAX_UNKNOWN = 10_000
"""Unknown ids that are remembered; the oldest is forgotten for one more."""


class Registered(NamedTuple):
    """What the registry has of one topic's schema."""

    subject: str
    id: int | None
    status: str


def prepare(spec: Spec, bus: Bus, role: str | None = None, make: bool = False) -> Schemas:
    """For writers: makes the topics that are missing, registers their schemas, gives the ids to write.

    Unless told to `make` topics it may only expect them (see provide): those of a `role`, or all.
    """
    settings_from()  # what cannot work is told before anything is made
    if make:
        names.create_topics(spec, bus)
    else:
        provide.topics(spec, bus, role)
    registry = _registry()
    if registry is None:
        return Schemas(earlier=earlier_ids())
    texts = _texts(spec)
    given = {t: registry.register(subject(spec, bus, t), text) for t, text in texts.items()}
    return _with_ids(given, _known(registry, spec, bus, texts), WriterSchemas())


def for_events(spec: Spec, bus: Bus) -> Schemas:
    """For writers of events alone: registers their schema if they have one, and gives its id."""
    registry, text = _registry(), _texts(spec).get("events")
    if registry is None or text is None:
        return Schemas()
    return Schemas({"events": registry.register(subject(spec, bus, "events"), text)})


def look_up(spec: Spec, bus: Bus, topics: Iterable[str]) -> Schemas:
    """For readers: the ids that records of some topics may have. Registers nothing."""
    registry = _registry()
    if registry is None:
        return Schemas(earlier=earlier_ids())
    found = _known(registry, spec, bus, topics)
    return _with_ids({topic: ids.same[-1] for topic, ids in found.items() if ids.same}, found)


def configured() -> bool:
    """Whether there is a registry to ask."""
    return settings_from() is not None


def statuses(spec: Spec, bus: Bus) -> dict[str, Registered] | None:
    """What the registry has of every topic's schema, by short topic name; None if there is no registry."""
    registry = _registry()
    if registry is None:
        return None
    return {t: _status(registry, subject(spec, bus, t), text) for t, text in _texts(spec).items()}


def subject(spec: Spec, bus: Bus, topic: str) -> str:
    """The subject of a topic's values, by the rule that clients follow unless told otherwise."""
    return f"{bus.public_name(names.topic(spec, topic))}-value"


def _status(registry: Registry, subject: str, schema: str) -> Registered:
    found = registry.find(subject, schema)
    if found is not None:
        return Registered(subject, found, "registered")
    objection = registry.objection(subject, schema)
    return Registered(subject, None, "not registered" if objection is None else f"incompatible: {objection}")


class Known(NamedTuple):
    """The registry's ids of a topic's schema, oldest first, and those of what older versions wrote: the declared id."""

    same: list[int]
    older: dict[int, int]


def _known(registry: Registry, spec: Spec, bus: Bus, topics: Iterable[str]) -> dict[str, Known]:
    texts, declared, found = _texts(spec), names.declared(spec), {}
    for topic in topics:
        earlier = earlier_texts(topic) if topic in declared else {}
        same, *older = registry.ids_of(subject(spec, bus, topic), [texts[topic], *earlier.values()])
        found[topic] = Known(same, {given: i for i, ids in zip(earlier, older, strict=True) for given in ids})
    return found


def _with_ids(
    written: Mapping[str, int], found: Mapping[str, Known], lookup: Callable[[int], str | None] | None = None
) -> Schemas:
    """With what may be read in addition to the ids that are written: all that the registry or the environment says is
    ours."""
    earlier = earlier_ids()
    same = {topic: earlier.get(topic, frozenset()) for topic in {*earlier, *found}}
    same |= {topic: same[topic].union(ids.same) for topic, ids in found.items()}
    return Schemas(written, same, {topic: ids.older for topic, ids in found.items()}, lookup)


def _registry(deadline_s: float | None = None) -> Registry | None:
    settings = settings_from()
    if settings is None:
        return None
    # Here, so that a process without a registry does not wait for HTTP and TLS to be loaded.
    from streaminfer.runtime.registry.client import Registry
    from streaminfer.runtime.registry.http import DEADLINE_S, Conversation

    return Registry(Conversation(settings, DEADLINE_S if deadline_s is None else deadline_s))


class WriterSchemas:
    """The texts of ids that data records carry, from the registry; asked when the first such record comes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unknown: dict[int, float] = {}
        """When the registry did not know an id, oldest first: records of one come in thousands."""

    def __call__(self, schema_id: int) -> str | None:
        asked = self._unknown.pop(schema_id, None)
        if asked is not None and self._clock() < asked + UNKNOWN_S:
            self._unknown[schema_id] = asked
            return None
        registry = _registry(LOOKUP_S)
        found = None if registry is None else registry.text(schema_id)
        if found is None:
            self._unknown[schema_id] = self._clock()
            if len(self._unknown) > MAX_UNKNOWN:
                del self._unknown[next(iter(self._unknown))]
        return found


def _texts(spec: Spec) -> dict[str, str]:
    """The schemas of a spec's own topics, by short topic name: those declared, and that of its events if framed."""
    found = {name: schema_text(name) for name, each in names.declared(spec).items() if each.schema is not None}
    if spec.data.topic is None and spec.data.format in formats():
        file = formats()[spec.data.format].schema
        found["events"] = spec.event_schema if file is None else read(file)
    return found
