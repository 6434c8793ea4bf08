"""The schemas of a spec's topics in the registry that the environment names, if it names one.

Asked once, at the start: a registry that goes away later disturbs nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.registry.settings import earlier_ids, settings_from
from streaminfer.spec import Spec
from streaminfer.topics import declarations
from streaminfer.wire.avro import Schemas, schema_text

if TYPE_CHECKING:
    from streaminfer.runtime.registry.client import Registry


class Registered(NamedTuple):
    """What the registry has of one topic's schema."""

    subject: str
    id: int | None
    status: str


def prepare(spec: Spec, bus: Bus) -> Schemas:
    """For those who write: makes the topics that are missing, registers their schemas, gives the ids to write."""
    settings_from()  # what cannot work is told before anything is made
    names.create_topics(spec, bus)
    registry = _registry()
    if registry is None:
        return Schemas(earlier=earlier_ids())
    given = {t: registry.register(subject(spec, bus, t), schema_text(t)) for t in _framed()}
    return Schemas(given, _readable(_same(registry, spec, bus, _framed())))


def look_up(spec: Spec, bus: Bus, topics: Iterable[str]) -> Schemas:
    """For those who only read: the ids that records of some topics may have. Registers nothing."""
    registry = _registry()
    if registry is None:
        return Schemas(earlier=earlier_ids())
    found = _same(registry, spec, bus, topics)
    return Schemas({topic: ids[-1] for topic, ids in found.items() if ids}, _readable(found))


def configured() -> bool:
    """Whether there is a registry to ask."""
    return settings_from() is not None


def statuses(spec: Spec, bus: Bus) -> dict[str, Registered] | None:
    """What the registry has of every topic's schema, by short topic name; None where there is no registry."""
    registry = _registry()
    if registry is None:
        return None
    return {t: _status(registry, subject(spec, bus, t), schema_text(t)) for t in _framed()}


def subject(spec: Spec, bus: Bus, topic: str) -> str:
    """The subject of a topic's values, by the rule that clients follow unless told otherwise."""
    return f"{bus.public_name(names.topic(spec, topic))}-value"


def _status(registry: Registry, subject: str, schema: str) -> Registered:
    found = registry.find(subject, schema)
    if found is not None:
        return Registered(subject, found, "registered")
    objection = registry.objection(subject, schema)
    return Registered(subject, None, "not registered" if objection is None else f"incompatible: {objection}")


def _same(registry: Registry, spec: Spec, bus: Bus, topics: Iterable[str]) -> dict[str, list[int]]:
    return {t: registry.same_ids(subject(spec, bus, t), schema_text(t)) for t in topics}


def _readable(found: Mapping[str, Sequence[int]]) -> dict[str, frozenset[int]]:
    """What may be read besides the ids that are written: all that the registry or the environment says is ours."""
    earlier = earlier_ids()
    return {topic: earlier.get(topic, frozenset()).union(found.get(topic, ())) for topic in {*earlier, *found}}


def _registry() -> Registry | None:
    settings = settings_from()
    if settings is None:
        return None
    # Here, so that who has no registry does not wait for HTTP and TLS to be loaded.
    from streaminfer.runtime.registry.client import Registry
    from streaminfer.runtime.registry.http import Conversation

    return Registry(Conversation(settings))


def _framed() -> list[str]:
    return [name for name, declaration in declarations().items() if declaration.schema is not None]
