"""What stands in the way of a restore, and what is known of it."""

from __future__ import annotations

from typing import NamedTuple

from streaminfer.bus.protocol import Bus, Output, Partition, Record
from streaminfer.runtime.service import Fatal

REPAIR = "`streaminfer repair SPEC` shows what is in the way, and steps over it when you say so."


class InTheWay(NamedTuple):
    """A record that is not a part of a whole snapshot, and why."""

    record: Record
    why: str

    def __str__(self) -> str:
        return f"{self.record.partition} offset {self.record.offset}: {self.why}"


def nothing_whole(found: InTheWay) -> Fatal:
    """The error of a posterior that is there, of which no whole snapshot can be read."""
    return Fatal(
        f"{found}. No whole snapshot is left that this version can read. Starting over would throw the posterior away: "
        f"run the version that wrote it (with the schema registry that it used), or give the spec a new name. {REPAIR}"
    )


def of_unknown_schema(found: InTheWay) -> Fatal:
    """The error of a posterior that somebody has gone on with in a schema that is not known here: that is not junk."""
    return Fatal(
        f"{found}. The posterior was written by a newer version of streaminfer, or with a schema registry that is not "
        "set here: run that version, or set the registry."
    )


def removals(bus: Bus, partition: Partition) -> list[Output]:
    """Tombstones of all that a compacted partition has now."""
    keys: dict[bytes, None] = {}
    end = bus.ends(partition.topic)[partition.index]
    with bus.reader({partition: bus.starts(partition.topic)[partition.index]}) as reader:
        while reader.position(partition) < end:
            for part in reader.poll(1.0).slices:
                keys |= {record.key: None for record in part.records if record.key is not None}
    return [Output(partition.topic, None, key, partition.index) for key in keys]
