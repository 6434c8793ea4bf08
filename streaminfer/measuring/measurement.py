"""What one check found, in numbers and in words. It is what the monitor publishes and everybody shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

Status = Literal["good", "watch", "fail", "unknown"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
Subject = Literal["posterior", "draws", "combined"]
SUBJECTS: Final[tuple[Subject, ...]] = get_args(Subject)


class Value(NamedTuple):
    """One number. What is not known is None; it is never NaN."""

    name: str
    """What it is, such as `coverage`, `shift` or `delta`."""
    coordinate: str = ""
    """Of which parameter, such as `weights[sqm]`; empty: of the whole posterior."""
    value: float | None = None
    se: float | None = None
    """Its standard error."""
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """The result of one check of one version of a posterior."""

    check: str
    """Its row in the table of checks."""
    status: Status
    sentence: str
    """What was found, in one plain sentence."""
    remedy: str = ""
    """What to do about it; empty if there is nothing to do."""
    subject: Subject = "posterior"
    target: str = ""
    """Which density the scores are of: `all`, `anchored` or `segment`; empty if the check has no scores."""
    n_draws: int = 0
    n_data: int = 0
    """Events that were looked at."""
    seconds: float = 0.0
    seed: int = 0
    values: tuple[Value, ...] = ()
    curves: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Plots, each a matrix with one column for each quantity; column 0 is the horizontal axis."""


def unknown(check: str, sentence: str, remedy: str = "", subject: Subject = "posterior") -> Measurement:
    """A check that could not be made; the sentence says why."""
    return Measurement(check, "unknown", sentence, remedy, subject)
