"""The ways to forget that a spec may name: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streaminfer.variational.forgetting import ByEvents, ByTime, Forgetting
from streaminfer.variational.windows import LastEvents, LastSeconds

WINDOWS: Final[Mapping[str, Callable[[float], LastEvents | LastSeconds]]] = {
    "window_events": LastEvents,
    "window_seconds": LastSeconds,
}
KINDS: Final[Mapping[str, Callable[[float], Forgetting]]] = {
    "half_life_events": ByEvents,
    "half_life_seconds": ByTime,
    **WINDOWS,
}


def of(forget: Mapping[str, float] | None) -> Forgetting | None:
    """What a spec's `inference.forget` says; None: every event counts alike."""
    if forget is None:
        return None
    ((kind, value),) = forget.items()
    return KINDS[kind](value)


def window_of(forget: Mapping[str, float] | None) -> LastEvents | LastSeconds | None:
    """The window that a spec's `inference.forget` says; None where it says something else or nothing."""
    found = of(forget)
    return found if isinstance(found, LastEvents | LastSeconds) else None
