"""Atomic commits to the simulated broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from streaminfer.bus.protocol import BusError, Fenced, Member, Output, Positions
from tests.simulation.connection import Connection
from tests.simulation.groups import Group
from tests.simulation.member import SimulatedMember


class SimulatedWriter:
    """The newest writer of its name, until another one is opened."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name
        self._epoch = connection.broker.epochs.get(name, 0) + 1
        connection.broker.epochs[name] = self._epoch
        self._closed = False

    def commit(
        self, outputs: Sequence[Output], positions: Positions | None = None, owner: Member | str | None = None
    ) -> list[int]:
        """See protocol.Writer. As in Kafka, owners are checked when positions are offered, later only the epoch."""
        if self._closed:
            raise BusError(f"the writer {self._name!r} is closed")
        places = positions or {}
        group = self._group_of(owner)
        if places and group is None:
            raise ValueError("positions belong to a group: name it with `owner`")
        connection, broker = self._connection, self._connection.broker
        broker.check_positions(places)

        def offer() -> None:
            if isinstance(owner, SimulatedMember):
                owner.check_owner(places)
            elif group is not None:
                group.check_vacant()

        def effect() -> list[int]:
            if broker.epochs[self._name] != self._epoch:
                raise Fenced(f"a newer writer {self._name!r} has been opened")
            if connection.faults.lies("commit"):
                return broker.pretend(outputs)
            offsets = broker.append(outputs, commit=True)
            if group is not None:
                group.positions.update(places)
            return offsets

        if group is not None:
            connection.act("offer positions", offer)
        return connection.act("commit", effect)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _group_of(self, owner: Member | str | None) -> Group | None:
        """The group whose positions are committed; raises ValueError for an owner that is none here."""
        if owner is None:
            return None
        if isinstance(owner, str):
            return self._connection.broker.group(owner)
        if not isinstance(owner, SimulatedMember) or owner.broker is not self._connection.broker:
            raise ValueError("the owner must be a member of this bus or the name of a group")
        return owner.broker.group(owner.group)
