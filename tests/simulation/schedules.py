"""Many schedules, in parts that several processes can share, and the search for one that shows a bug."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.subscribers import Wrong

PART = 500
LONGEST_S = 2400.0
"""For a part of the long run, in the slowest of the worlds."""


def schedules(every_run: int, in_all: int, part: int = PART) -> pytest.MarkDecorator:
    """Runs a test once for each part of the `seeds` up to `in_all`; from `every_run` on only in the long run."""
    later = (pytest.mark.long, pytest.mark.timeout(LONGEST_S))
    return pytest.mark.parametrize(
        "seeds",
        [
            pytest.param(seeds, marks=marks, id=f"{seeds.start}-{seeds.stop}")
            for begin, end, size, marks in ((0, every_run, part, ()), (every_run, in_all, PART, later))
            for seeds in (range(first, min(first + size, end)) for first in range(begin, end, size))
        ],
    )


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
