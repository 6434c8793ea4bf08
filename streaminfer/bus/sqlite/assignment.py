"""Which member gets which partition: balanced, and with as few moves as balance allows."""

from __future__ import annotations

from collections.abc import Mapping


def assign(
    members: Mapping[int, frozenset[str]],
    partitions: Mapping[int, str],
    owners: Mapping[int, int],
) -> dict[int, int]:
    """The owner of each partition that any member subscribes to.

    `members`: topics by member. `partitions`: topic by partition. `owners`: the present owners, kept if they still
    subscribe. No partition could move from one member to another that has two or more fewer.
    """
    held: dict[int, list[int]] = {member: [] for member in sorted(members)}
    homeless: list[int] = []
    for partition in sorted(partitions):
        owner = owners.get(partition)
        if owner is not None and partitions[partition] in members.get(owner, ()):
            held[owner].append(partition)
        else:
            homeless.append(partition)
    for partition in homeless:
        takers = [member for member in held if partitions[partition] in members[member]]
        if takers:
            held[min(takers, key=lambda member: len(held[member]))].append(partition)
    while (move := _move(members, partitions, held)) is not None:
        giver, taker, partition = move
        held[giver].remove(partition)
        held[taker].append(partition)
    return {partition: member for member, taken in held.items() for partition in taken}


def _move(
    members: Mapping[int, frozenset[str]], partitions: Mapping[int, str], held: Mapping[int, list[int]]
) -> tuple[int, int, int] | None:
    """A giver, a taker with two or more fewer, and the partition that goes: each move lowers the sum of squares."""
    by_load = sorted(held, key=lambda member: len(held[member]))
    for giver in reversed(by_load):
        for taker in by_load:
            if len(held[giver]) - len(held[taker]) < 2:
                break
            for partition in reversed(held[giver]):
                if partitions[partition] in members[taker]:
                    return giver, taker, partition
    return None
