"""The right that something takes on the broker, and how an administrator grants it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from kafka import errors

Kind = Literal["topic", "group", "transactional-id"]
_KINDS: Final[dict[type[Exception], Kind]] = {
    errors.TopicAuthorizationFailedError: "topic",
    errors.GroupAuthorizationFailedError: "group",
    errors.TransactionalIdAuthorizationFailedError: "transactional-id",
}


class Need(NamedTuple):
    """An operation on something, by its name on the broker."""

    operation: str
    kind: Kind
    name: str


@dataclass(frozen=True)
class Needs:
    """All that one question takes, who asks, and whom."""

    all: Sequence[Need]
    user: str
    servers: str

    def of(self, error: Exception) -> Need | None:
        """The need that an error says is not met."""
        kind = next((kind for made, kind in _KINDS.items() if isinstance(error, made)), None)
        found = [need for need in self.all if need.kind == kind]
        named = _names(error.args)
        return next((need for need in found if need.name in named), found[0] if found else None)

    def told(self, need: Need) -> str:
        """What is missing, and the line that grants it."""
        line = [
            "kafka-acls", "--bootstrap-server", self.servers, "--add", "--allow-principal", self.user,
            "--operation", need.operation, f"--{need.kind}", need.name,
        ]  # fmt: skip
        what = f"{need.operation} the {need.kind.replace('-', ' ')} {need.name!r}"
        return f"this user may not {what}. Grant it with: {shlex.join(line)}"

    def __add__(self, others: Needs) -> Needs:
        return Needs([*self.all, *others.all], self.user, self.servers)


NONE: Final = Needs((), "", "")


def _names(arguments: Iterable[Any]) -> set[str]:
    """The names among an error's arguments, which may be sets of them."""
    found: set[str] = set()
    for each in arguments:
        if isinstance(each, str):
            found.add(each)
        elif isinstance(each, set | frozenset | list | tuple):
            found |= {str(name) for name in each}
    return found
