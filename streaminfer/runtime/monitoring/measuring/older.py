"""Snapshots from before the newest one: what a change is compared with, and what events since then are added to."""

from __future__ import annotations

from typing import Final

from streaminfer.variational.snapshot import Snapshot

MOST_BYTES: Final = 32 << 20
"""Of all that are kept; the first and the newest are kept in any case."""


class Older:
    """Keeps the first snapshot that was seen, one of each doubling of its events, and one that is not far back.

    Not far back is at most so many events, if snapshots come often enough.
    """

    def __init__(self, near: int) -> None:
        self._near = near
        self._doubled: list[Snapshot] = []
        self._recent: list[Snapshot] = []

    def see(self, snapshot: Snapshot) -> None:
        """Takes a snapshot if it is to be kept."""
        if snapshot.n_events == 0:
            return
        if self._doubled and _other(self._doubled[-1], snapshot):
            self._doubled, self._recent = [], []
        if not self._doubled or snapshot.n_events >= 2 * self._doubled[-1].n_events:
            self._doubled.append(snapshot)
            while len(self._doubled) > 2 and sum(map(_bytes, self._doubled)) > MOST_BYTES:
                del self._doubled[1]
        if not self._recent or snapshot.n_events - self._recent[-1].n_events >= self._near // 2:
            self._recent = [*self._recent[-1:], snapshot]

    def before(self, snapshot: Snapshot) -> tuple[Snapshot, ...]:
        """The first, the newest with at most half the events, and one that is not far back; oldest first."""
        half = [each for each in self._doubled if 2 * each.n_events <= snapshot.n_events]
        found = {each.version: each for each in (*self._doubled[:1], *half[-1:], *self._recent[:1])}
        return tuple(found[version] for version in sorted(found) if version < snapshot.version)


def _other(before: Snapshot, snapshot: Snapshot) -> bool:
    """Whether the log has gone back, or is another one."""
    return snapshot.version < before.version or snapshot.frontier.topic_id != before.frontier.topic_id


def _bytes(snapshot: Snapshot) -> int:
    held = snapshot.payload
    draws = 0 if held.sampled is None else held.sampled.draws.nbytes
    return held.statistics.nbytes + sum(clock.statistics.nbytes for clock in held.clocks.values()) + draws
