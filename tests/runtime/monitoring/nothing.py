"""Measures nothing: the verdict then rests on snapshots and beats, and says what is unknown."""

from __future__ import annotations

from collections.abc import Sequence

from streaminfer.measuring.published import Published
from streaminfer.variational.snapshot import Snapshot


class Nothing:
    """A `Measuring` without checks."""

    def see(self, snapshot: Snapshot) -> None: ...

    def saw(self, published: Published) -> None: ...

    def poll(self) -> Sequence[Published]:
        return ()

    def close(self) -> None: ...
