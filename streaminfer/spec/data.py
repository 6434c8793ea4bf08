"""The section `data`: where events come from, and where in an event the model's fields are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from streaminfer.models.events import Field
from streaminfer.models.options import Choice, Integer, Option, OptionsError, Pairs, Section, Text, unknown_name

FORMATS: Final = ("json",)
PARTITIONS: Final = 4

TOPIC: Final = Text(
    r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "1 to 249 of the characters A-Z a-z 0-9 . _ - and not '.' or '..'"
)
PATH: Final = Text(
    r"(?=[\s\S]{1,200}$)[^.]+(\.[^.]+){0,15}",
    "a name, or names joined by dots, which lead into nested objects: 1 to 200 characters, at most 16 names",
)


def _with_partitions(data: dict[str, Any]) -> dict[str, Any]:
    """The spec's own topic has four partitions where it does not say; somebody else's has what it has."""
    own = data["topic"] is None and data["partitions"] is None
    return {**data, "partitions": PARTITIONS} if own else data


DATA: Final = Section(
    (
        Option("format", Choice(FORMATS), "How an event is written in a record.", "json"),
        Option(
            "partitions",
            Integer(1, 1024),
            "Partitions of the spec's own data topic: the most workers that can share it; "
            f"not set means {PARTITIONS}. Not with topic, which has its own.",
            None,
        ),
        Option(
            "topic",
            TOPIC,
            "A topic that somebody else fills; it is only ever read. Not set means {name}.events, the spec's own.",
            None,
        ),
        Option(
            "fields",
            Pairs(PATH),
            "Where in an event a field of the model is: a name, or a path of names joined by dots. "
            "Fields that are not here are under their own names.",
            {},
        ),
        Option(
            "timestamp",
            PATH,
            "Where in an event its time is: a name, or a path of names joined by dots; RFC 3339 or seconds since 1970. "
            "Not set means the record's own timestamp. Only inference.forget.half_life_seconds reads it.",
            None,
        ),
    ),
    complete=_with_partitions,
)


@dataclass(frozen=True, slots=True)
class Data:
    """Where events come from. `partitions` is None where `topic` is somebody else's."""

    format: str
    partitions: int | None
    topic: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    timestamp: str | None = None


def check_data(name: str, data: Mapping[str, Any]) -> None:
    """Raises OptionsError where options are right one by one but not together."""
    topic = data["topic"]
    if topic is None:
        return
    if data["partitions"] is not None:
        rule = f"must not be set together with data.topic: {topic!r} has partitions of its own; leave it out"
        raise OptionsError("partitions", rule, data["partitions"])
    if topic.startswith(f"{name}."):
        rule = (
            f"must not begin with '{name}.', as the spec's own topics do: give the spec another name, "
            f"or leave it out if the spec's own {name}.events is meant"
        )
        raise OptionsError("topic", rule, topic)


def located(fields: Sequence[Field], paths: Mapping[str, str]) -> tuple[Field, ...]:
    """The model's fields with their places in an event; raises OptionsError for one that the model does not have."""
    names = [each.name for each in fields]
    for name, path in paths.items():
        if name not in names:
            raise OptionsError(f"fields.{name}", unknown_name(name, names, "field of the model"), path)
    return tuple(
        replace(each, path=tuple(paths[each.name].split("."))) if each.name in paths else each for each in fields
    )
