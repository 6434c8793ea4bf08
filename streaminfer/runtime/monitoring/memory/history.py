"""How the posterior came to be what it is: means and sds of parameters, scores and drift, version by version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.measuring.measurement import Measurement, Value
from streaminfer.measuring.published import Published
from streaminfer.models.model import Labels, Moments
from streaminfer.runtime.api.snapshot import PosteriorSnapshot, plain
from streaminfer.sampling import flat
from streaminfer.tables.kinds import kind_of

CHECK: Final = "history"
"""The name of a point among the measurements of the metrics topic, from which a new monitor reads the past."""
MOST_COORDINATES: Final = 1024
MOST_POINTS: Final = 2000
MOST_NUMBERS: Final = 2_000_000
APART_MS: Final = 1000
"""Points are at least so far apart, but for the newest."""
HALF_WIDTH: Final = 1.959963984540054
"""Sds of a normal distribution on each side of its mean that hold 95%."""
_NONE: Final = np.empty((0, 0))
_EARLIER: Final = "earlier_"
"""Begins the names of curves that are whole points."""
_COUNTS: Final = ("score_sum", "n_scored", "n_alarms", "alarm_at")


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """One version. Sums and counts are of all events so far."""

    version: int
    at: int
    """When the snapshot was made, in milliseconds since 1970."""
    n_events: int
    means: NDArray[np.float64]
    """(k,) in the order of coordinates; NaN: not known."""
    sds: NDArray[np.float64]
    score_sum: float = 0.0
    n_scored: int = 0
    n_alarms: int = 0
    alarm_at: int = 0

    @property
    def _rows(self) -> NDArray[np.float64]:
        """(n, 3): the number of a coordinate, its mean and its sd; without what is not known."""
        rows = np.column_stack([np.arange(len(self.means), dtype=float), self.means, self.sds])
        return rows[np.isfinite(rows).all(axis=1)]

    @property
    def _whole(self) -> NDArray[np.float64]:
        """(3 + n, 3): all that is known of the version, then `_rows`."""
        head = [self.version, self.at, self.n_events, self.score_sum, self.n_scored, self.n_alarms, self.alarm_at, 0, 0]
        return np.vstack([np.reshape(np.array(head, dtype=float), (3, 3)), self._rows])

    def measurement(self, earlier: Sequence[Point] = ()) -> Measurement:
        """The point as it is published, with earlier ones that were not."""
        values = tuple(Value(name, value=float(getattr(self, name))) for name in _COUNTS)
        sentence = f"version {self.version} has {self.n_events} events"
        curves = {"parameters": self._rows} if len(self._rows) else {}
        curves |= {f"{_EARLIER}{i}": each._whole for i, each in enumerate(earlier)}
        return Measurement(CHECK, "good", sentence, values=values, curves=curves)


def published_points(found: Published) -> list[Point]:
    """The points that were published together, oldest first."""
    curves, moment = found.measurement.curves, found.moment
    earlier = [_earlier(rows) for name, rows in curves.items() if name.startswith(_EARLIER)]
    before = [each for each in earlier if each is not None and each.version < moment.version]
    means, sds = _numbers(curves.get("parameters", np.empty((0, 3))))
    counts = {value.name: value.value or 0.0 for value in found.measurement.values if value.name in _COUNTS}
    score_sum = counts.pop("score_sum", 0.0)
    whole = {name: int(value) for name, value in counts.items()}
    newest = Point(moment.version, found.measured_at, moment.n_events, means, sds, score_sum, **whole)
    return [*sorted(before, key=lambda each: each.version), newest]


def _earlier(rows: NDArray[np.float64]) -> Point | None:
    """A point from `_whole`; None if it cannot be one."""
    if rows.shape[1] != 3 or len(rows) < 3 or not np.isfinite(rows).all():
        return None
    version, at, n_events, score_sum, n_scored, n_alarms, alarm_at, _, _ = rows[:3].ravel().tolist()
    whole = [version, at, n_events, n_scored, n_alarms, alarm_at]
    if not all(0 <= each < 2**53 for each in whole):
        return None
    version, at, n_events, n_scored, n_alarms, alarm_at = map(int, whole)
    return Point(version, at, n_events, *_numbers(rows[3:]), score_sum, n_scored, n_alarms, alarm_at)


def _numbers(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and sds by coordinate from `_rows`."""
    rows = rows[(rows[:, 0] >= 0) & (rows[:, 0] < MOST_COORDINATES)] if rows.shape[1] == 3 else np.empty((0, 3))
    which = rows[:, 0].astype(np.intp)
    numbers = np.full((2, int(which.max(initial=-1)) + 1), np.nan)
    numbers[:, which] = rows[:, 1:].T
    return numbers[0], numbers[1]


def coordinates_of(moments: Mapping[str, Moments], labels: Mapping[str, Labels]) -> tuple[str, ...]:
    """The names of the first MOST_COORDINATES numbers of all parameters, in declared order."""
    shapes = {name: each.mean.shape for name, each in moments.items()}
    return tuple(islice(flat.names(shapes, labels), MOST_COORDINATES))


def point_of(found: PosteriorSnapshot) -> Point:
    """The point of a snapshot; topics and keys have no parameters of their own here."""
    snapshot, drift = found.snapshot, found.snapshot.drift
    has_moments = found.topics is None and not kind_of(found.spec).has_rows
    moments = found.moments.values() if has_moments else ()
    return Point(
        snapshot.version,
        snapshot.created_at,
        snapshot.n_events,
        _first([each.mean for each in moments]),
        _first([each.sd for each in moments]),
        float(snapshot.counts.score),
        kind_of(found.spec).n_scored(snapshot),
        0 if drift is None else drift.n_alarms,
        0 if drift is None or not drift.n_alarms else drift.alarm_at,
    )


def _first(arrays: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    flat = np.concatenate([each.ravel() for each in arrays]) if arrays else np.empty(0)
    return flat[:MOST_COORDINATES].astype(np.float64)


@dataclass
class History:
    """Points, oldest first. If there are too many, every second one of the older half goes."""

    coordinates: tuple[str, ...] = ()
    points: tuple[Point, ...] = field(default=())
    """Replaced as a whole, so that any thread may read it."""

    @property
    def most(self) -> int:
        return min(MOST_POINTS, max(100, MOST_NUMBERS // (2 * max(1, len(self.coordinates)))))

    def add(self, point: Point) -> None:
        """A newer version. The newest point gives way to it if that is close to the one before."""
        kept = self.points
        if kept and point.version <= kept[-1].version:
            return
        if len(kept) > 1 and kept[-1].at - kept[-2].at < APART_MS and _same_alarms(kept[-1], kept[-2]):
            kept = kept[:-1]
        self.points = _thinned((*kept, point), self.most)

    def document(self, coordinates: Sequence[int], since: int, most: int) -> dict[str, Any]:
        """Columns of at most `most` points after the version `since`, with the intervals of some coordinates."""
        after = [point for point in self.points if point.version > since]
        before = self.points[-len(after) - 1] if len(after) < len(self.points) else None
        points = [after[i] for i in spread(len(after), most)]
        means = np.stack([_padded(point.means, len(self.coordinates)) for point in points]) if points else _NONE
        sds = np.stack([_padded(point.sds, len(self.coordinates)) for point in points]) if points else _NONE
        return {
            "versions": [point.version for point in points],
            "at": [point.at for point in points],
            "n_events": [point.n_events for point in points],
            "scores": _scores(points, before),
            "drift": _alarms(after, before),
            "interval": 0.95,
            "parameters": {self.coordinates[i]: _curve(means[:, i], sds[:, i]) for i in coordinates if means.size},
        }


def _padded(numbers: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return np.concatenate([numbers[:size], np.full(max(0, size - len(numbers)), np.nan)])


def _same_alarms(one: Point, other: Point) -> bool:
    return one.n_alarms == other.n_alarms


def _thinned(points: tuple[Point, ...], most: int) -> tuple[Point, ...]:
    if len(points) <= most:
        return points
    half = len(points) // 2
    return (*points[:half:2], *points[half:])


def spread(n: int, most: int) -> list[int]:
    """Numbers below n, at most `most` of them, evenly apart; the last is among them."""
    if n <= most:
        return list(range(n))
    return sorted({n - 1 - round(i * (n - 1) / max(1, most - 1)) for i in range(most)})


def _curve(means: NDArray[np.float64], sds: NDArray[np.float64]) -> dict[str, Any]:
    return {"mean": plain(means), "lower": plain(means - HALF_WIDTH * sds), "upper": plain(means + HALF_WIDTH * sds)}


def _scores(points: Sequence[Point], before: Point | None) -> list[float | None]:
    """The mean score of the events between each point and the one before it."""
    found: list[float | None] = []
    for point in points:
        n, total = point.n_scored, point.score_sum
        if before is not None and before.n_scored <= n:
            n, total = n - before.n_scored, total - before.score_sum
        found.append(total / n if n > 0 else None)
        before = point
    return found


def _alarms(points: Sequence[Point], before: Point | None) -> list[dict[str, int]]:
    """Where drift was told: the first version that knew, and how many events there were then."""
    told = 0 if before is None else before.n_alarms
    found = []
    for point in points:
        if point.n_alarms > told:
            found.append({"version": point.version, "at": point.at, "n_events": point.alarm_at})
        told = point.n_alarms
    return found
