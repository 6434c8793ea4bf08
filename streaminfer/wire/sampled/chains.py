"""What the records of chains have in common: their checks, spans and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from streaminfer.sampling.draws import Counters
from streaminfer.sampling.units import Span, Spans, Unit
from streaminfer.wire.errors import BadValue

MAX_TEXT: Final = 300
MAX_PARTS: Final = 10_000
MAX_NUMBER: Final = 1 << 53
"""Of counts and positions: larger ones are not numbers of events, and float64 does not have them all."""
MAX_INDEX: Final = (1 << 31) - 1
MAX_TIME: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
MARGIN: Final = 256
"""Bytes of a record for its key and for lengths."""


def require(holds: bool, field: str, rule: str, value: object) -> None:
    """Raises BadValue unless a rule holds."""
    if not holds:
        raise BadValue(f"{field} {rule} (got {value!r})")


def check_numbers(value: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Counts, positions and indices: from 0 to 2^53."""
    for name in fields:
        require(0 <= value[name] <= MAX_NUMBER, name, "must be 0 to 2^53", value[name])


def check_times(value: Mapping[str, Any], fields: Sequence[str]) -> None:
    """Milliseconds since 1970."""
    for name in fields:
        require(0 <= value[name] <= MAX_TIME, name, "must be from 1970 to 9999", value[name])


def check_text(value: Mapping[str, Any], fields: Sequence[str]) -> None:
    for name in fields:
        require(len(value[name]) <= MAX_TEXT, name, f"must have at most {MAX_TEXT} characters", value[name][:20])


def check_plain(value: Mapping[str, Any], fields: Sequence[str], most: int = MAX_TEXT) -> None:
    """Texts that people will see: no control characters, which a terminal would obey."""
    for name in fields:
        text = value[name]
        require(len(text) <= most, name, f"must have at most {most} characters", text[:20])
        require(text.isprintable(), name, "must have printable characters only", text[:20])


def check_fingerprint(value: Mapping[str, Any], expected: str) -> None:
    found = value["fingerprint"]
    require(found == expected, "fingerprint", f"must be {expected}", found[:20])


def check_phase(value: Mapping[str, Any], phases: Sequence[str]) -> None:
    require(value["phase"] in phases, "phase", f"must be one of {', '.join(phases)}", value["phase"][:20])


def span_fields(spans: Spans) -> list[dict[str, int]]:
    return [span._asdict() for span in spans]


def spans_of(found: Sequence[Mapping[str, int]], unit: Unit | None = None, name: str = "frontier") -> Spans:
    """Spans of different partitions, all of a unit's subposterior; raises BadValue."""
    spans = tuple(Span(each["partition"], each["start"], each["end"]) for each in found)
    before = -1
    for span in spans:
        require(before < span.partition, name, "must have different partitions in rising order", span.partition)
        placed = 0 <= span.start <= span.end <= MAX_NUMBER
        require(placed, name, "must have 0 <= start <= end <= 2^53", (span.start, span.end))
        ours = unit is None or unit.has(span.partition)
        require(ours, name, "must have partitions of the subposterior", span.partition)
        before = span.partition
    return spans


def n_positions(spans: Spans) -> int:
    return sum(span.end - span.start for span in spans)


def check_events(n_events: int, spans: Spans, max_events: int) -> None:
    """There are not more events than the positions have room for; a record has at most `max_events`."""
    most = n_positions(spans) * max_events
    require(0 <= n_events <= most, "n_events", f"must be 0 to the {most} that the frontier has room for", n_events)


def counters_of(value: Mapping[str, Any]) -> Counters:
    """Those among the fields of a record; raises BadValue."""
    check_numbers(value, Counters._fields)
    found = Counters(**{name: value[name] for name in Counters._fields})
    accepted = found.n_accepted <= found.n_proposed
    require(accepted, "n_accepted", f"must be at most the {found.n_proposed} proposals", found.n_accepted)
    return found
