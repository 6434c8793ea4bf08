"""Rows that go into records together: each the JSON text of an event, or all as one matrix of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Run = Sequence[bytes] | NDArray[np.float64]
"""Texts, or a matrix (n, columns) with a format's `columns`."""


def only(run: Run, places: NDArray[np.intp]) -> Run:
    """The rows at some places."""
    return run[places] if isinstance(run, np.ndarray) else [run[place] for place in places.tolist()]
