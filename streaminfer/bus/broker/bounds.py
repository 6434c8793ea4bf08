"""The starts and ends of the logs, and what is kept for groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kafka.admin import OffsetSpec
from kafka.errors import GroupIdNotFoundError, for_code
from kafka.protocol.consumer import IsolationLevel
from kafka.structs import OffsetAndMetadata, TopicPartition

from streaminfer.bus.broker.connection import Connection
from streaminfer.bus.broker.topics import Catalog
from streaminfer.bus.protocol import Partition, Position, Positions

MAX_NOTE: Final = 4000


def starts(connection: Connection, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The first position of each partition's log."""
    return _look_up(connection, partitions, OffsetSpec.EARLIEST)


def ends(connection: Connection, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The position after the last record of each partition that readers may see."""
    return _look_up(connection, partitions, OffsetSpec.LATEST)


def hidden(connection: Connection, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Positions of each partition that are written and that readers may not see yet."""
    # The outer end first: what is there now and seen a moment later is not hidden.
    written = _look_up(connection, partitions, OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED)
    seen = ends(connection, partitions)
    return {partition: max(0, end - seen[partition]) for partition, end in written.items()}


def committed(connection: Connection, group: str) -> dict[Partition, Position]:
    """The positions kept for a group."""
    name = connection.names.outside(group)
    needs = connection.needs("Describe", "group", group)
    found = connection.ask(f"reading positions of {group!r}", lambda admin: admin.list_group_offsets(name), needs)
    kept = {connection.names.partition(place): at for place, at in found.get(name, {}).items() if at.offset >= 0}
    return {partition: Position(at.offset, at.metadata or "") for partition, at in sorted(kept.items())}


def members(connection: Connection, group: str) -> dict[str, str | None]:
    """The instance names of a group's members by their ids."""
    name = connection.names.outside(group)

    def look(admin: Any) -> Any:
        found = admin.describe_groups([name])[name]
        # It raises no errors: a broker that is not the group's coordinator reports a group without members.
        code = re.match(r"\[Error (\d+)\]", found["error"] or "")
        if found["error"] and (code is None or int(code[1]) != GroupIdNotFoundError.errno):
            raise for_code(int(code[1]) if code else -1)(found["error"])
        return found["members"]

    found = connection.ask(f"looking at the group {group!r}", look, connection.needs("Describe", "group", group))
    return {member["member_id"]: member["group_instance_id"] for member in found}


def prepare(connection: Connection, catalog: Catalog, positions: Positions) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions as the broker takes them; raises UnknownTopic and ValueError."""
    for partition, (offset, note) in positions.items():
        if offset < 0:
            raise ValueError(f"the position of {partition} is {offset}, it must not be negative")
        if len(note) > MAX_NOTE:
            raise ValueError(f"the note at {partition} has {len(note)} characters, at most {MAX_NOTE} are kept")
        catalog.check_partition(partition)
    return {
        connection.names.place(partition): OffsetAndMetadata(offset, note, -1)
        for partition, (offset, note) in positions.items()
    }


def _look_up(
    connection: Connection,
    partitions: Iterable[Partition],
    spec: OffsetSpec,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
) -> dict[Partition, int]:
    partitions = list(partitions)
    wanted = {connection.names.place(partition): spec for partition in partitions}
    if not wanted:
        return {}
    found = connection.ask(
        "looking up offsets",
        lambda admin: admin.list_partition_offsets(wanted, isolation_level=isolation),
        connection.needs("Describe", "topic", *{partition.topic for partition in partitions}),
    )
    return {connection.names.partition(place): at.offset for place, at in sorted(found.items())}
