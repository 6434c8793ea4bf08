"""The topics of a spec before anything works on them: made here, or expected to be made by a user who may."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from streaminfer.bus.environment import SettingsError
from streaminfer.bus.protocol import Bus, Topic
from streaminfer.runtime import names
from streaminfer.runtime.service import NotYet
from streaminfer.spec import Spec

VARIABLE: Final = "STREAMINFER_TOPICS"
CREATE: Final = "create"
EXPECT: Final = "expect"


def makes_topics(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether programs make topics that are missing; raises SettingsError."""
    mode = environ.get(VARIABLE) or CREATE
    if mode not in {CREATE, EXPECT}:
        raise SettingsError(f"{VARIABLE} is {mode!r}, it must be {CREATE} or {EXPECT}")
    return mode == CREATE


def topics(spec: Spec, bus: Bus, role: str | None = None) -> None:
    """Makes the topics that are missing, or expects those of a role."""
    if makes_topics():
        names.create_topics(spec, bus)
    else:
        expect(spec, bus, role)


def expect(spec: Spec, bus: Bus, role: str | None = None) -> None:
    """Raises NotYet if a topic of the spec is missing, or has too few partitions; only those of a role are asked for.

    No right but Describe is needed. An external topic has its own check.
    """
    used = {each.topic(spec.name) for each in names.declared(spec).values() if role is None or role in each.everyone}
    faults = [fault for each in names.topics_of(spec) if each.name in used and (fault := _fault(bus, each))]
    if faults:
        raise NotYet(
            f"{', '.join(faults)}. {VARIABLE} is {EXPECT}, so nothing is made here: run `streaminfer topics SPEC "
            "--apply` as a user who may create topics"
        )


def _fault(bus: Bus, topic: Topic) -> str | None:
    """What is wrong with a topic, if anything is."""
    count = names.count_of(bus, topic.name)
    if not count:
        return f"topic {topic.name} is missing"
    if count < topic.partitions:
        return f"topic {topic.name} has {count} partitions of {topic.partitions}"
    return None
