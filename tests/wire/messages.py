"""Valid messages for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import increments, snapshots
from streaminfer.wire.avro import DECLARED
from tests.made import new_increment, new_snapshot

FINGERPRINT = "0123456789abcdef"
ABOUT = snapshots.About("demo", "poisson", "gamma", "svb", "exact")
VALUES = np.array([1.5, -2.25, 1e-300])
NATURAL = np.array([3.0, 4.0])


def increment(**changes: Any) -> Increment:
    fields: dict[str, Any] = {
        "fingerprint": FINGERPRINT, "writer": "worker-1", "topic": "demo.events", "partition": 2, "begin": 7, "end": 12,
        "n_events": 3, "n_dead_lettered": 1, "n_lost": 1, "base_version": 4, "score": -3.25, "statistics": VALUES,
        "epoch": 0,
    }  # fmt: skip
    return new_increment(**{**fields, **changes})


def snapshot(**changes: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "fingerprint": FINGERPRINT, "version": 6, "statistics": VALUES, "positions": {0: 10, 3: 2**40}, "read_to": 21,
        "n_events": 100, "n_lost": 1, "n_dead_lettered": 2, "n_damped": 3, "n_rejected": 4, "n_dropped": 5,
        "score": -12.5, "staleness": 2, "created_at": 1_700_000_000_123,
    }  # fmt: skip
    return new_snapshot(**{**fields, **changes})


def increment_record(**changes: Any) -> bytes:
    """An increment's record with any field changed, also to what `encode` would never write."""
    value = DECLARED.decode("increments", increments.encode(increment(), 1 << 20)[0])
    return DECLARED.encode("increments", {**value, **changes})


def snapshot_record(manifest: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """A snapshot's record with any field, or any field of its manifest, changed."""
    value = DECLARED.decode("posterior", snapshots.encode(snapshot(), NATURAL, ABOUT, 1 << 20)[0][1])
    return DECLARED.encode("posterior", {**value, "manifest": {**value["manifest"], **(manifest or {})}, **changes})
