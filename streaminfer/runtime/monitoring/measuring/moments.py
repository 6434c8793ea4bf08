"""Which state of a posterior was measured, as its snapshot says."""

from __future__ import annotations

from streaminfer.measuring.published import Moment
from streaminfer.variational.snapshot import Snapshot


def moment_of(snapshot: Snapshot, base_version: int = 0) -> Moment:
    """That of a snapshot; an older one may have been the prior of what it was compared with."""
    sampled = snapshot.payload.sampled
    return Moment(
        snapshot.version,
        base_version,
        snapshot.frontier.epoch,
        0 if sampled is None else max(0, sampled.shown.segment),
        dict(snapshot.frontier.positions),
        snapshot.n_events,
    )
