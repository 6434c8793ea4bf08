"""Increments as records: one each, or parts `i of n` if the statistics do not fit into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.models import times
from streaminfer.variational.counts import Counts
from streaminfer.variational.forgetting.reached import SIZES, Reached
from streaminfer.variational.forgetting.windows import MOST_PANES
from streaminfer.variational.increment import Change, Increment, Layout, Pane, Provenance
from streaminfer.variational.methods.svb import LOWEST
from streaminfer.wire import key_columns, vectors
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue

TOPIC = "increments"
MAX_TEXT = 300
MAX_PARTS = 10_000
ENVELOPE = 4096
"""Bytes left for all but the statistics of a record."""
TIMED: Final = 2
"""Numbers after the statistics if events are forgotten by time: the sum of weights, the newest event's time."""
PANE: Final = 2
"""Numbers of a pane before its statistics: its index, the count of its events."""
LARGEST_INDEX: Final = 1 << 53
PLAIN: Final = Layout(0)
PROVENANCE: Final = tuple(field.name for field in fields(Provenance))
COUNTS: Final = tuple(field.name for field in fields(Counts))


class Part(NamedTuple):
    """One decoded record of an increment, with everything but whole statistics checked."""

    value: dict[str, Any]

    @property
    def of(self) -> tuple[object, ...]:
        """What the parts of one increment have in common."""
        return tuple(v for k, v in self.value.items() if k not in {"part", "statistics"})


def encode(increment: Increment, max_bytes: int, schemas: Schemas = DECLARED, layout: Layout = PLAIN) -> list[bytes]:
    """The records of an increment, none larger than `max_bytes`."""
    pieces = vectors.cut(_packed(increment.payload, layout), max_bytes - ENVELOPE)
    common = {
        **{name: getattr(increment.provenance, name) for name in PROVENANCE},
        **{name: getattr(increment.counts, name) for name in COUNTS},
        "parts": len(pieces),
    }
    return [schemas.encode(TOPIC, {**common, "part": i, "statistics": piece}) for i, piece in enumerate(pieces)]


def _packed(change: Change, layout: Layout) -> bytes:
    if change.keys is not None:
        return key_columns.pack(change.keys, change.statistics, layout.timed)
    numbers = change.statistics
    if layout.windowed:
        rows = [([index, pane.n_events], pane.statistics) for index, pane in sorted(change.panes.items())]
        numbers = np.concatenate([[change.newest], *(part for row in rows for part in row)])
    elif layout.timed:
        numbers = np.append(numbers, [change.n_effective, change.newest])
    return vectors.pack(numbers)


def decode(data: bytes | None, schemas: Schemas = DECLARED, max_events: int = 1) -> Part:
    """One record of an increment; raises WireError if it cannot be one.

    A record of the data format has at most `max_events` events.
    """
    value = schemas.decode(TOPIC, data)
    for name in ("fingerprint", "writer", "topic"):
        _require(len(value[name]) <= MAX_TEXT, name, f"must have at most {MAX_TEXT} characters", value[name][:20])
    for name in ("partition", "epoch", "begin", "n_events", "n_dead_lettered", "n_lost", "base_version", "part"):
        _require(value[name] >= 0, name, "must not be negative", value[name])
    width = value["end"] - value["begin"]
    _require(width > 0, "end", "must be above begin", value["end"])
    counted = value["n_events"] + value["n_dead_lettered"] + value["n_lost"] * max_events
    rule = f"counts must not exceed the {width} positions"
    _require(counted <= width * max_events, "n_events", rule, counted)
    converged = 0 <= value["n_unconverged"] <= value["n_events"]
    _require(converged, "n_unconverged", f"must be 0 to the {value['n_events']} events", value["n_unconverged"])
    value["reached"] = reached_of(value["reached"])
    most = -LOWEST * max(1, value["n_events"]) * (1 + 1e-9)
    _require(abs(value["score"]) <= most, "score", f"must be within {most:g} of 0", value["score"])
    _require(1 <= value["parts"] <= MAX_PARTS, "parts", f"must be 1 to {MAX_PARTS}", value["parts"])
    _require(value["part"] < value["parts"], "part", "must be below parts", value["part"])
    return Part(value)


def reached_of(found: Sequence[float]) -> Reached:
    """What a partition has reached, as increments and snapshots have it; raises BadValue."""
    fits = len(found) in SIZES and all(times.EARLIEST <= time <= times.LATEST for time in found)
    _require(fits, "reached", f"must be times of the years 1 to 9999, {SIZES} of them", found)
    return tuple(found)


def most_numbers(layout: Layout) -> int:
    """The most numbers that an increment without labels has."""
    size = layout.size
    return 1 + MOST_PANES * (PANE + size) if layout.windowed else size + TIMED * layout.timed


def assemble(parts: list[Part], layout: Layout, belongs: Callable[[bytes], bool] = lambda _: True) -> Increment:
    """The increment that all its parts, in order, make; raises BadValue if its statistics have another layout.

    Each of its labels must belong to the reader's shard.
    """
    value, pieces = parts[0].value, [part.value["statistics"] for part in parts]
    provenance = Provenance(**{name: value[name] for name in PROVENANCE})
    counts = Counts(**{name: value[name] for name in COUNTS})
    if layout.labelled:
        return Increment(provenance, counts, _labelled(b"".join(pieces), counts.n_events, layout, belongs))
    return Increment(provenance, counts, _unpacked(pieces, counts.n_events, layout))


def _unpacked(pieces: list[bytes], n_events: int, layout: Layout) -> Change:
    size = layout.size
    if layout.windowed:
        newest, panes = _panes(pieces, size, n_events)
        return Change(np.zeros(size), newest=newest, panes=panes)
    numbers = vectors.join(pieces, size + TIMED * layout.timed)
    if not layout.timed:
        return Change(numbers.copy())
    n_effective, newest = numbers[size:].tolist()
    _check_times(n_effective, newest, n_events)
    return Change(numbers[:size].copy(), n_effective, newest)


def _panes(pieces: list[bytes], size: int, n_events: int) -> tuple[float, dict[int, Pane]]:
    """The newest event's time, and the panes: in rising order, each with an event or more."""
    n_panes = max(0, sum(map(len, pieces)) // 8 - 1) // (PANE + size)
    _require(n_panes <= MOST_PANES, "panes", f"must be at most {MOST_PANES}", n_panes)
    numbers = vectors.join(pieces, 1 + n_panes * (PANE + size))
    newest, rows = float(numbers[0]), numbers[1:].reshape(n_panes, PANE + size)
    _require(times.EARLIEST <= newest <= times.LATEST, "newest", "must be a time of the years 1 to 9999", newest)
    indices, counts = rows[:, 0], rows[:, 1]
    whole = np.abs(indices) <= LARGEST_INDEX
    rising = bool((whole & (indices == np.floor(indices))).all() and (np.diff(indices) > 0).all())
    _require(rising, "panes", "must have whole numbers in rising order", indices.tolist())
    counted = bool((counts >= 1).all() and (counts == np.floor(counts)).all() and counts.sum() <= n_events)
    _require(counted, "panes", f"must have one event or more each, together at most {n_events}", counts.tolist())
    return newest, {int(row[0]): Pane(int(row[1]), row[PANE:].copy()) for row in rows}


def _labelled(data: bytes, n_events: int, layout: Layout, belongs: Callable[[bytes], bool]) -> Change:
    """A change by keys or words."""
    words = layout.labels == "words"
    keys, statistics = key_columns.unpack(data, layout.size, layout.timed, n_events, words)
    known = layout.known
    odd = (label for label in keys.labels if not belongs(label) or (known is not None and label not in known))
    found = next(odd, None)
    _require(found is None, "keys", "must be of this shard", found)
    return Change(statistics, keys=keys)


def _check_times(n_effective: float, newest: float, n_events: int) -> None:
    """The newest event counts once and no other more, so the weights' sum is between 1 and the count of events."""
    fits = min(n_events, 1) <= n_effective <= n_events * (1 + 1e-9)
    _require(
        fits, "n_effective", f"must be at least 1 and at most the {n_events} events, if there are any", n_effective
    )
    _require(times.EARLIEST <= newest <= times.LATEST, "newest", "must be a time of the years 1 to 9999", newest)


def _require(holds: bool, field: str, rule: str, value: object) -> None:
    if not holds:
        raise BadValue(f"{field} {rule} (got {value!r})")
