"""Dead letters counted by their reasons, those that are not dead letters yet too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from streaminfer.bus.protocol import Output
from streaminfer.spec import Spec
from streaminfer.wire import dead_letters
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.events.formats import format_of

MOST_REASONS: Final = 1000
"""Different ones that are told apart; the others are one."""
EXAMPLE: Final = 200
"""Bytes of a value that stands for all of its reason."""
OTHERS: Final = "other reasons"


@dataclass(frozen=True)
class Counted:
    """A reason, how often it was there, and a value that had it."""

    count: int
    reason: str
    example: bytes | None


@dataclass
class _Group:
    count: int
    first: str
    example: bytes | None
    differ: bool = False


class Tally:
    """How many events were refused for which reason. Reasons that differ in the value alone are one."""

    def __init__(self) -> None:
        self.count = 0
        self._groups: dict[str, _Group] = {}

    def add(self, reason: str, example: bytes | None, count: int = 1, differ: bool = False) -> None:
        """`differ`: whether reasons with other values are among them."""
        self.count += count
        gist = dead_letters.gist(reason)
        if gist not in self._groups and len(self._groups) >= MOST_REASONS:
            gist = reason = OTHERS
        group = self._groups.setdefault(gist, _Group(0, reason, None))
        group.count += count
        group.differ |= differ or reason != group.first
        if group.example is None or reason < group.first:  # the same in whatever order they come
            group.first, group.example = reason, None if example is None else example[:EXAMPLE]

    def add_all(self, other: Tally) -> None:
        for each in other._groups.values():
            self.add(each.first, each.example, each.count, each.differ)

    def reasons(self) -> list[Counted]:
        """The commonest first; equally common ones by their texts."""
        found = [
            Counted(each.count, dead_letters.several(each.first) if each.differ else each.first, each.example)
            for each in self._groups.values()
        ]
        return sorted(found, key=lambda each: (-each.count, each.reason))

    @property
    def commonest(self) -> str:
        """The most common reason with its count, for a line about all; empty if nothing was refused."""
        found = self.reasons()
        return f"{found[0].reason} ({found[0].count:,})" if found else ""


class Judge:
    """Tells by the worker's own check which events will be dead letters, whatever else comes; changes nothing.

    A worker may refuse some more: those with a time that is too far ahead of their record's timestamp.
    """

    def __init__(self, spec: Spec, schemas: Schemas = DECLARED) -> None:
        # Whatever id our own records get, their schema is the spec's: no registry need be asked.
        self._format = format_of(spec, replace(schemas, lookup=lambda _: spec.event_schema))

    def refused(self, outputs: Sequence[Output]) -> Tally:
        tally = Tally()
        for bad in self._format.decode([output.value for output in outputs]).bad:
            tally.add(bad.reason, outputs[bad.place].value if bad.rest is None else bad.rest, bad.n_events)
        return tally
