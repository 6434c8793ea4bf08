"""Groups of the simulated broker: leases, the owner of each partition and since when, and kept positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from streaminfer.bus.protocol import Fenced, Partition, Position, Topic
from streaminfer.bus.sqlite import groups
from streaminfer.bus.sqlite.assignment import assign


@dataclass
class Lease:
    """A membership and when it runs out."""

    topics: frozenset[str]
    expires: float


class Group:
    """Members by number; no number is given twice. `generation` grows whenever a partition changes hands."""

    def __init__(self, name: str, topics: Mapping[str, Topic], clock: Callable[[], float], session_s: float) -> None:
        self.name = name
        self.generation = 0
        self.positions: dict[Partition, Position] = {}
        self._topics, self._clock, self._session_s = topics, clock, session_s
        self._members: dict[int, Lease] = {}
        self._newest = 0
        # The last member of each instance name, kept after it has gone: every other one stays replaced.
        self._instances: dict[str, int] = {}
        # Since which generation, so that lost and regained is not the same as kept.
        self._owners: dict[Partition, tuple[int, int]] = {}

    def join(self, topics: Iterable[str], instance: str | None) -> int:
        """A new member, which inherits the partitions of its instance's last member."""
        self._newest += 1
        number, now = self._newest, self._clock()
        if instance is not None:
            self._take_over(instance, number)
        self._members[number] = Lease(frozenset(topics), now + self._session_s)
        self._evict(now)
        self.rebalance()
        return number

    def beat(self, number: int) -> bool:
        """Ends the leases that ran out and extends the member's; false if its own is gone."""
        now = self._clock()
        if self._evict(now):
            self.rebalance()
        lease = self._members.get(number)
        if lease is None:
            return False
        lease.expires = now + self._session_s
        return True

    def leave(self, number: int) -> None:
        """Hands the member's partitions on at once."""
        if self._members.pop(number, None) is not None:
            self.rebalance()

    def was_replaced(self, number: int, instance: str | None) -> bool:
        """Whether another member has joined under this one's instance name."""
        return instance is not None and self._instances[instance] != number

    def owned(self, number: int) -> dict[Partition, int]:
        """A member's partitions, each with the generation since when."""
        return {partition: since for partition, (owner, since) in self._owners.items() if owner == number}

    def check_owner(self, number: int, claims: Mapping[Partition, int | None]) -> None:
        """Raises Fenced unless the member is there and has had each partition since the generation it knows of."""
        if number not in self._members:
            raise Fenced(f"this member is no longer in group {self.name!r}")
        for partition, since in claims.items():
            if since is None or self._owners.get(partition) != (number, since):
                raise Fenced(f"this member of group {self.name!r} does not own {partition}")

    def check_vacant(self) -> None:
        """Raises Fenced if there are members: then only they may commit positions."""
        now = self._clock()
        latest = now + groups.LONGEST_LEASE * self._session_s
        if any(now < lease.expires <= latest for lease in self._members.values()):
            raise Fenced(f"group {self.name!r} has members: only they may commit its positions")

    def rebalance(self) -> None:
        """A new assignment; the generation grows if anything changes hands."""
        partitions = sorted(
            Partition(topic.name, index) for topic in self._topics.values() for index in range(topic.partitions)
        )
        number_of = {partition: number for number, partition in enumerate(partitions)}
        wanted = assign(
            {member: lease.topics for member, lease in self._members.items()},
            {number: partition.topic for partition, number in number_of.items()},
            {number_of[partition]: owner for partition, (owner, _) in self._owners.items() if partition in number_of},
        )
        owners = {partitions[number]: member for number, member in wanted.items()}
        if owners != {partition: owner for partition, (owner, _) in self._owners.items()}:
            self.generation += 1
            self._owners = {p: self._since(p, member) for p, member in owners.items()}

    def _since(self, partition: Partition, member: int) -> tuple[int, int]:
        owner = self._owners.get(partition)
        return owner if owner is not None and owner[0] == member else (member, self.generation)

    def _take_over(self, instance: str, number: int) -> None:
        last = self._instances.get(instance)
        self._instances[instance] = number
        if last is not None and self._members.pop(last, None) is not None:
            self.generation += 1
            for partition in self.owned(last):
                self._owners[partition] = (number, self.generation)

    def _evict(self, now: float) -> bool:
        latest = now + groups.LONGEST_LEASE * self._session_s
        expired = [member for member, lease in self._members.items() if not now < lease.expires <= latest]
        for member in expired:
            del self._members[member]
        return bool(expired)
