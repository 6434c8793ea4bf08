"""What stands in the way of a restore, and what is known of it."""

from __future__ import annotations

from typing import NamedTuple

from streaminfer.bus.protocol import Partition, Record
from streaminfer.runtime.service import Fatal

REPAIR = "`streaminfer repair SPEC` shows which records block it, and skips them if you confirm."


class InTheWay(NamedTuple):
    """A record that is not a part of a whole snapshot, and why."""

    record: Record
    why: str

    def __str__(self) -> str:
        return f"{self.record.partition} offset {self.record.offset}: {self.why}"


class Misfit(Fatal):
    """What is kept beside a snapshot is not its own."""

    def __init__(self, partition: Partition, what: str, version: int, detail: str) -> None:
        self.found = InTheWay(Record(partition, 0, 0, None, None), f"the {what} are not those of {version}: {detail}")
        super().__init__(
            f"{partition}: the {what} on it are not those of the posterior's version {version}: {detail}. Continuing "
            "would lose events, or count events that do not belong to it. Run the version that wrote them (with the "
            f"schema registry that it used), or give the spec a new name. {REPAIR}"
        )


def nothing_whole(found: InTheWay) -> Fatal:
    """The error of a posterior that exists, but has no whole snapshot that can be read."""
    return Fatal(
        f"{found}. No whole snapshot is left that this version can read. Starting over would discard the posterior. "
        f"Run the version that wrote it (with the schema registry that it used), or give the spec a new name. {REPAIR}"
    )


def of_unknown_schema(found: InTheWay) -> Fatal:
    """The error of a posterior that was continued in a schema that is not known here: that is not junk."""
    return Fatal(
        f"{found}. The posterior was written by a newer version of streaminfer, or with a schema registry that is not "
        "set here. Run that version, or set the registry."
    )
