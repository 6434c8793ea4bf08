"""Several passes over the data, as tables know them (see `variational.epochs`)."""

from __future__ import annotations

from collections.abc import Mapping

from streaminfer.variational import epochs
from streaminfer.variational.settings import Inference
from streaminfer.variational.snapshot import Snapshot


def unfixed(inference: Inference, snapshot: Snapshot) -> bool:
    """Whether there are several passes and their ends are not fixed yet."""
    return inference.n_epochs > 1 and not snapshot.frontier.ends


def fixed(snapshot: Snapshot, ends: Mapping[int, int]) -> tuple[Snapshot, str]:
    """Makes the data that exists now, up to its ends, that of every pass."""
    found = epochs.fixed(snapshot, ends)
    return found, f"every pass ends at {dict(found.frontier.ends)}"


def turned(inference: Inference, snapshot: Snapshot) -> Snapshot:
    """At the start of the next pass if this one is at its end, else as it is."""
    return epochs.turned(snapshot, inference.n_epochs)
