"""The ways to forget that a spec may name: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streaminfer.models.options import Integer, Number, OneKey, Option
from streaminfer.variational.forgetting.decay import ByEvents, ByTime, Forgetting
from streaminfer.variational.forgetting.windows import LastEvents, LastSeconds

WINDOWS: Final[Mapping[str, Callable[[float], LastEvents | LastSeconds]]] = {
    "window_events": LastEvents,
    "window_seconds": LastSeconds,
}
KINDS: Final[Mapping[str, Callable[[float], Forgetting]]] = {
    "half_life_events": ByEvents,
    "half_life_seconds": ByTime,
    **WINDOWS,
}

FORGET: Final = OneKey(
    (
        Option(
            "half_life_events",
            Number(minimum=0.01, maximum=1e15),
            "An event counts half after this many further events of its partition.",
        ),
        Option(
            "half_life_seconds",
            Number(minimum=0.001, maximum=1e12),
            "An event counts half when the newest event of all is this much newer.",
        ),
        Option(
            "window_events",
            Integer(1, 10**15),
            "Only the events at this many last positions of each partition count, to within a 64th.",
        ),
        Option(
            "window_seconds",
            Number(minimum=0.01, maximum=1e12),
            "Only events at most this much older than the newest of all count, to within a 64th.",
        ),
    )
)
"""What a spec's `inference.forget` may say."""


def of(forget: Mapping[str, float] | None) -> Forgetting | None:
    """What a spec's `inference.forget` says; None: every event counts alike."""
    if forget is None:
        return None
    ((kind, value),) = forget.items()
    return KINDS[kind](value)


def window_of(forget: Mapping[str, float] | None) -> LastEvents | LastSeconds | None:
    """The window that a spec's `inference.forget` says; None if it says something else or nothing."""
    found = of(forget)
    return found if isinstance(found, LastEvents | LastSeconds) else None
