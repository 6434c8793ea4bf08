"""Audits: whether a posterior is what its events say, computed once more by another way.

Exact models: the statistics of a segment, read again from the log, must be what lies between two snapshots. Natural
parameters are sums over events, so differences are told in events: a lost event is one event's own term. Rounding
limits what can be seen. F folds of a sum S leave about 2^-53 sqrt(F) |S|, and a difference below `ROOM` times that is
none. The number of events is compared as well, which is exact up to 2^53.

Others: moments are compared with those of a long exact chain on the same target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.families.special import ndtr
from streaminfer.measuring.measurement import Measurement, Value, unknown
from streaminfer.models.model import Conjugate, Matrix, Vector
from streaminfer.sampling.pooled import effective

CHECK: Final = "audit"
ROOM: Final = 64.0
"""Times the rounding that is expected: sums are made in another order, and some terms are products."""
SAMPLED: Final = 16
"""Events of a block whose own terms are looked at."""
LIMIT: Final = 1.959963984540054
_EXACT: Final = (
    "Compare the segment's events with the snapshots around it: `snapshot` lists what was lost, rejected and "
    "dead-lettered. If they do not explain it, make the posterior anew from the log."
)
_CHAIN: Final = "Use a sampler, another local step or a larger minibatch; the chain says what the posterior is."


class Segment:
    """The statistics of a segment's events, block by block as they are read again from the log.

    With forgetting, weights (n,) are those at the segment's end.
    """

    def __init__(self, model: Conjugate) -> None:
        self._model, self._prior = model, model.posterior(model.empty()).natural
        self.statistics, self.n_events = model.empty(), 0
        self._largest = np.zeros(len(self._prior))

    def add(self, events: Matrix, weights: Vector | None = None) -> None:
        """One block, n >= 0 events."""
        if not len(events):
            return
        largest = 1.0 if weights is None else float(weights.max())
        if largest > 0:
            scaled = None if weights is None else weights / largest
            found = self._model.scale(self._model.statistics(events, scaled), largest)
            self.statistics = self._model.merge(self.statistics, found)
        self.n_events += len(events)
        for event in events[:: max(1, len(events) // SAMPLED)]:
            term = self._model.posterior(self._model.statistics(event[None])).natural - self._prior
            self._largest = np.maximum(self._largest, np.abs(term))

    @property
    def terms(self) -> Vector:
        """The largest own term of an event that was looked at, in each natural parameter."""
        return self._largest


class Difference(NamedTuple):
    """Between two snapshots and what the log says: in events, and how much of that may be rounding."""

    events: float
    rounding: float
    missing: int
    """Events that the log has and the snapshots do not; below 0 if they have more."""

    @property
    def is_found(self) -> bool:
        return self.missing != 0 or self.events > self.rounding


def difference(
    model: Conjugate, before: Vector, after: Vector, segment: Segment, *, folds: int, absorbed: int
) -> Difference:
    """Of the statistics before a segment and after it; with forgetting, `before` is decayed to the segment's end.

    `folds` is how many increments are in the later snapshot, and `absorbed` how many events the snapshots say the
    segment has. The parameter that differs most, in units of its rounding, decides.
    """
    said, read = (model.posterior(one).natural for one in (after, model.merge(before, segment.statistics)))
    sizes = np.maximum(np.abs(said), np.abs(read))
    terms = np.maximum(segment.terms, np.finfo(np.float64).tiny)
    rounding = ROOM * 2.0**-53 * math.sqrt(max(folds, 1)) * sizes
    beyond = np.abs(said - read) / np.maximum(rounding, np.finfo(np.float64).tiny)
    worst = int(np.argmax(beyond))
    missing = segment.n_events - absorbed
    return Difference(float(np.abs(said - read)[worst] / terms[worst]), float(rounding[worst] / terms[worst]), missing)


def told(found: Difference, segment: Segment) -> Measurement:
    """As a measurement: `fail` if there is a difference, `unknown` if rounding would hide half an event."""
    values = (
        Value("difference", value=found.events, upper=found.rounding),
        Value("missing", value=float(found.missing), se=0.0),
    )
    count = f"{segment.n_events:,} events of the log"
    if not segment.n_events:
        return unknown(CHECK, "The segment has no events to audit.", "Wait for more events.")
    if found.missing:
        many = abs(found.missing)
        what = f"{many:,} event{'s' * (many != 1)} {'too few' if found.missing > 0 else 'too many'}"
        return _exact("fail", f"The snapshots have {what}, against {count}.", _EXACT, values, segment)
    if found.events > found.rounding:
        said = f"The snapshots differ from {count} by the term of {found.events:.3g} events, at equal counts."
        return _exact("fail", said, _EXACT, values, segment)
    if found.rounding > 0.5:
        return unknown(CHECK, "Sums are so large that rounding would hide a lost event.", "Audit shorter segments.")
    return _exact("good", f"The snapshots have exactly {count}.", "", values, segment)


def _exact(status: Any, sentence: str, remedy: str, values: tuple[Value, ...], segment: Segment) -> Measurement:
    return Measurement(CHECK, status, sentence, remedy, n_data=segment.n_events, values=values)


class Published(NamedTuple):
    """Mean and sd of each of c numbers, (c,), as a snapshot has them; `n_draws` if they are of independent draws."""

    mean: Vector
    sd: Vector
    n_draws: float = math.inf


class Compared(NamedTuple):
    """Of each number (c,): (true mean - published mean) / published sd, true sd / published sd, standard errors."""

    shift: Vector
    shift_se: Vector
    ratio: Vector
    ratio_se: Vector
    coverage: Vector
    """What a published 95% interval really holds."""
    coverage_se: Vector


def compared(published: Published, chains: Sequence[Matrix]) -> Compared:
    """With chains (n, c) of a long exact run. Raises ValueError if a chain is too short, or a number does not vary.

    A mean of E effective draws has the error sd / sqrt(E). The error of a deviation is by the effective draws of
    squares around the mean and their own spread, so that heavy tails count.
    """
    if not chains or min(map(len, chains)) < effective.LEAST:
        raise ValueError(f"every chain needs at least {effective.LEAST} draws to be compared with")
    every = np.concatenate(chains)
    mean, sd = every.mean(axis=0), every.std(axis=0, ddof=1)
    if not ((sd > 0) & (published.sd > 0)).all():
        raise ValueError("a number does not vary, so nothing is told in its deviations")
    squares = [np.square(chain - mean) for chain in chains]
    mean_se = sd / np.sqrt(effective.by_coordinate(chains))
    spread = np.concatenate(squares).std(axis=0, ddof=1) / np.sqrt(effective.by_coordinate(squares))
    own = 1 / published.n_draws
    shift, ratio = (mean - published.mean) / published.sd, sd / published.sd
    shift_se = np.sqrt((mean_se / published.sd) ** 2 + own)
    ratio_se = np.sqrt((spread / (2 * sd * published.sd)) ** 2 + 0.5 * own * ratio**2)
    return Compared(shift, shift_se, ratio, ratio_se, *_coverage(shift, shift_se, ratio, ratio_se))


def _coverage(shift: Vector, shift_se: Vector, ratio: Vector, ratio_se: Vector) -> tuple[Vector, Vector]:
    """Of Gaussians, with its error by the derivatives."""
    high, low = (LIMIT - shift) / ratio, (-LIMIT - shift) / ratio
    at_high, at_low = (np.exp(-0.5 * end * end) / math.sqrt(2 * math.pi) for end in (high, low))
    by_shift, by_ratio = (at_low - at_high) / ratio, (low * at_low - high * at_high) / ratio
    error = np.hypot(by_shift * shift_se, by_ratio * ratio_se)
    return np.asarray(ndtr(high) - ndtr(low), dtype=np.float64), np.asarray(error, dtype=np.float64)


def of_chain(
    found: Compared, coordinates: Sequence[str], limits: Mapping[str, float], n_draws: int, n_data: int, target: str
) -> Measurement:
    """As a measurement. `limits` are of coverage: `watch` and `fail`, each if coverage + 3 standard errors is below."""
    upper = found.coverage + 3 * found.coverage_se
    worst = int(np.argmin(found.coverage))
    status: Any = next((each for each in ("fail", "watch") if (upper < limits[each]).any()), "good")
    name, part = coordinates[worst], found.coverage[worst]
    sentence = f"By a long exact chain, the 95% interval of {name} holds {part:.1%}, the least of all."
    values = [
        Value(what, coordinate, float(value), float(se))
        for i, coordinate in enumerate(coordinates)
        for what, value, se in (
            ("shift", found.shift[i], found.shift_se[i]),
            ("ratio", found.ratio[i], found.ratio_se[i]),
            ("coverage", found.coverage[i], found.coverage_se[i]),
        )
    ]
    remedy = "" if status == "good" else _CHAIN
    return Measurement(
        CHECK, status, sentence, remedy, target=target, n_draws=n_draws, n_data=n_data, values=tuple(values)
    )
