"""What the monitor is told by a spec. It changes nothing of the posterior."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a 95% interval must really hold, lest the posterior be watched, or not be trusted."""

    watch: float = 0.92
    fail: float = 0.85


@dataclass(frozen=True, slots=True)
class Bdmc:
    """Bidirectional Monte Carlo: how often, on how many simulated data sets, of how many events, in how many steps."""

    every_seconds: float = 86_400.0
    datasets: int = 10
    temperatures: int = 1000
    events: int = 500


@dataclass(frozen=True, slots=True)
class Audit:
    every_seconds: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The section `monitor` of a spec."""

    share: float = 0.1
    """Of one core, for all measuring."""
    events: int = 20_000
    """That are held for scores and audits."""
    draws: int = 1000
    """Of the posterior, for each measurement."""
    estimands: tuple[str, ...] = ()
    """Coordinates such as `weights[sqm]`; empty: the first 16."""
    coverage: Coverage = field(default_factory=Coverage)
    fresh_seconds: float = 60.0
    """Data older than that must be in the posterior."""
    bad_share: float = 0.01
    """Of all events, those that may be dead-lettered, lost or rejected."""
    bdmc: Bdmc = field(default_factory=Bdmc)
    audit: Audit = field(default_factory=Audit)
