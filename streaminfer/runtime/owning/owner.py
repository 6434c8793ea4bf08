"""The owner of a part of the state: it fences its predecessors first, and has one commit for all that it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streaminfer.bus.protocol import Bus, Member, Output, Partition, Position, Unavailable


class Owner:
    """The only writer of some partitions of the state; the first has the last record of every commit."""

    def __init__(self, bus: Bus, name: str, state: Sequence[Partition]) -> None:
        """Shuts out every predecessor of this name: what is restored after it can no longer change.

        Raises Unavailable if a predecessor's last commit may still be hidden.
        """
        self._bus, self._state = bus, state
        self._writer = bus.writer(name)
        self._last_offset = -1
        try:
            self._check_visible()
        except BaseException:
            self._writer.close()
            raise

    def _check_visible(self) -> None:
        for topic, index in self._state:
            if self._bus.hidden(topic)[index]:
                # Our predecessor's last commit may be there: from an older snapshot its versions would come twice.
                raise Unavailable(f"{topic}: the newest snapshot may be behind an unfinished transaction of another")

    def check_newest(self, position: int, error: Exception | None = None) -> None:
        """Raises Unavailable if the state goes on after what was read, so that an error may come from that."""
        topic, index = self._state[0]
        if self._bus.hidden(topic)[index] or self._bus.ends(topic)[index] != position:
            raise Unavailable(f"{topic}: a newer master has written while this one was reading") from error

    def verify(self, what: str) -> None:
        """Raises Unavailable if the last commit was reported as done and is not in the log: failing brokers do that."""
        topic, index = self._state[0]
        if self._bus.ends(topic)[index] <= self._last_offset:
            raise Unavailable(f"{what} was reported as committed but is not in the log")

    def commit(self, outputs: Sequence[Output], positions: Mapping[Partition, Position], member: Member | None) -> None:
        """Writes all, and the member's positions, in one transaction; the last output is of the first partition."""
        self._last_offset = self._writer.commit(list(outputs), dict(positions), member)[-1]

    def publish(
        self, outputs: Sequence[Output], positions: Mapping[Partition, Position], member: Member | None
    ) -> None:
        """Writes what is no part of the state in a transaction of its own, which fails where `commit` would."""
        self._writer.commit(list(outputs), dict(positions), member)

    def close(self) -> None:
        self._writer.close()
