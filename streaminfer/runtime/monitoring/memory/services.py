"""Which processes there are, by their signs of life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from streaminfer.runtime.monitoring.pulse import GONE_MS, SILENT_MS
from streaminfer.wire.beats import Beat
from streaminfer.wire.snapshots import iso

MOST: Final = 1000

Life = Literal["healthy", "starting", "silent"]


@dataclass(frozen=True, slots=True)
class Process:
    """One process and those that came before it under its name."""

    beat: Beat
    seen_at: int
    """When its newest beat was written, in milliseconds since 1970."""
    restarts: int = 0

    def state(self, now: int) -> Life:
        if now - self.seen_at > SILENT_MS:
            return "silent"
        return "healthy" if self.beat.ready else "starting"

    def document(self, now: int) -> dict[str, Any]:
        beat = self.beat
        return {
            "service": beat.service,
            "instance": beat.instance,
            "host": beat.host,
            "state": self.state(now),
            "restarts": self.restarts,
            "started_at": iso(beat.start),
            "last_beat_at": iso(self.seen_at),
            "seconds_since": max(0, now - self.seen_at) / 1000,
            "counters": dict(sorted(beat.counters.items())),
        }


class Services:
    """The processes of a posterior by service and instance."""

    def __init__(self) -> None:
        self.shown: dict[tuple[str, str], Process] = {}
        """Replaced as a whole, so that any thread may read it."""

    def add(self, beat: Beat, written_at: int) -> bool:
        """Takes a beat, and whether a process is new or was started again."""
        place = (beat.service, beat.instance)
        known = self.shown.get(place)
        if known is not None and beat.start < known.beat.start:
            return False  # a late word of a predecessor
        again = known is not None and beat.start > known.beat.start
        restarts = 0 if known is None else known.restarts + again
        held = {name: each for name, each in self.shown.items() if written_at - each.seen_at < GONE_MS}
        held[place] = Process(beat, written_at, restarts)
        if len(held) > MOST:
            del held[min(held, key=lambda name: held[name].seen_at)]
        self.shown = held
        return known is None or again

    def end(self, key: bytes | None) -> bool:
        """A process that ends on purpose, by the key of its beats, and whether it was known."""
        service, _, instance = (key or b"").decode("utf-8", "replace").partition("/")
        if (service, instance) not in self.shown:
            return False
        self.shown = {place: each for place, each in self.shown.items() if place != (service, instance)}
        return True

    def newest(self, service: str) -> Process | None:
        """The process of a service that has beaten last."""
        found = [each for (role, _), each in self.shown.items() if role == service]
        return max(found, key=lambda each: each.seen_at, default=None)

    def states(self, now: int) -> dict[tuple[str, str], Life]:
        """The state of each process that is not forgotten."""
        return {name: each.state(now) for name, each in self.shown.items() if now - each.seen_at < GONE_MS}

    def documents(self, now: int) -> list[dict[str, Any]]:
        """A document for each process, by service and instance."""
        found = sorted(self.shown.items())
        return [each.document(now) for _, each in found if now - each.seen_at < GONE_MS]
