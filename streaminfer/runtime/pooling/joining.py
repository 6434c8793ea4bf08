"""From the draws of all chains to what is shown: those of one target are pooled, see `combining` for several."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.showing import Showing, Watcher
from streaminfer.sampling.pooled.shown import Shown
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.units import Spans


class Joined(NamedTuple):
    """What is to be shown, and the events that it is of."""

    showing: Showing
    spans: Spans


class Joining(Protocol):
    """Looks at the draws that were gathered."""

    def look(self, before: Shown, version: int) -> Joined | None:
        """What is to be shown after what was shown before, if that is something new; `version` will be its own."""

    @property
    def busy(self) -> bool:
        """Whether it still asks about the segments that are fixed."""

    def taken_dropped(self) -> int:
        """What has come since the last call and was not what had been asked for."""

    def close(self) -> None: ...


class Pooling:
    """The chains of one target, which are one another's equals."""

    def __init__(self, settings: Settings, gathered: Gathering) -> None:
        self._watcher, self._streams = Watcher(settings, gathered), settings.source == "stream"

    def look(self, before: Shown, version: int) -> Joined | None:  # noqa: ARG002 (combining needs it)
        for fixed in before.segments:
            found = self._watcher.look(fixed.number)
            if found is None and self._streams and before.segment < fixed.number - 1:
                found = self._watcher.look(fixed.number - 1)  # chains wait for nobody: it may have ended unseen
            if found is not None:
                return Joined(found, fixed.spans)
        return None

    @property
    def busy(self) -> bool:
        """Nothing is asked."""
        return False

    def taken_dropped(self) -> int:
        """Nothing is asked."""
        return 0

    def close(self) -> None:
        """Nothing is open."""
