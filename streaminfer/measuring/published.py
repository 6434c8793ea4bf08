"""A measurement, and which version of which posterior it is of: what the monitor publishes and everybody reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaminfer.measuring.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a posterior that was measured."""

    version: int
    """Of the snapshot."""
    base_version: int = 0
    """The snapshot that served as prior of the target; 0: the prior of the spec."""
    epoch: int = 0
    """The pass over the data, from 0."""
    segment: int = 0
    """Of a sampled posterior, the number of its newest segment."""
    frontier: Mapping[int, int] = field(default_factory=dict)
    """By data partition, the position up to which events were in the posterior."""
    n_events: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """One record of the topic `metrics`."""

    fingerprint: str
    """Of the spec."""
    writer: str
    """The monitor that measured."""
    measured_at: int
    """Milliseconds since 1970."""
    moment: Moment
    measurement: Measurement
