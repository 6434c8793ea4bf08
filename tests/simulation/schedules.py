"""Many schedules, in parts that several processes can share, and the search for one that shows a bug."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.subscribers import Wrong

PART = 500


def in_parts(begin: int, end: int) -> pytest.MarkDecorator:
    """Runs a test once for each part of the seeds from `begin` to `end`."""
    parts = [range(first, min(first + PART, end)) for first in range(begin, end, PART)]
    return pytest.mark.parametrize("seeds", parts, ids=[f"{part.start}-{part.stop}" for part in parts])


def shows_a_bug(
    play: Callable[[int], object],
    within: int,
    match: str | None = None,
    error: type[Exception] | tuple[type[Exception], ...] = Wrong,
) -> None:
    """One of the first schedules must end wrong, or with another error."""

    def play_many() -> None:
        for seed in range(within):
            play(seed)

    with pytest.raises(error, match=match):
        play_many()
