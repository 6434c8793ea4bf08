"""run every service the spec needs, as separate supervised processes"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from streaminfer.cli.common import add_bus, add_spec, answering, reached, warn, whole
from streaminfer.cli.terminal import StatusLine, bar
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.pulse import Pulse
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.role import needed
from streaminfer.runtime.running.health import check_free, parse_address
from streaminfer.runtime.running.process import StopSignal
from streaminfer.runtime.supervising.job import Job, Status
from streaminfer.runtime.supervising.supervisor import children_of
from streaminfer.runtime.telemetry import UpMetrics
from streaminfer.services import ROLES
from streaminfer.spec import Spec, load_spec
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.counts import Totals

NAME = 16
"""Characters of a name in the live line, which must have room for the counts."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--data", metavar="FILE", type=Path, help="load this file of events first (see `produce`)")
    parser.add_argument("--workers", metavar="N", type=whole(1, 256), default=1, help="worker processes (default: 1)")
    parser.add_argument("--until-idle", action="store_true", help="end when all data is in the posterior")
    parser.add_argument("--http", metavar="HOST:PORT", help="serve the API, health and metrics at this address")
    add_bus(parser)


def command(options: argparse.Namespace) -> int:
    if options.http:
        check_free(*parse_address(options.http)[:2])
    spec = load_spec(options.spec)
    warn(spec, options.spec)
    if options.data is not None:
        names.own_data_topic(spec)
    roles = needed(ROLES, spec)
    children = children_of(roles, spec, options.workers, options.spec, options.bus, options.verbose, options.http)
    stopping = StopSignal()
    with ExitStack() as stack:
        registry = CollectorRegistry()
        metrics = UpMetrics(registry, spec.name)
        bus = reached(options, lambda: answering(options.bus, spec), stopping, for_room=True)
        if bus is None:
            return 1
        stack.enter_context(bus)
        start = partial(Job, spec, bus, roles, children, options.data, options.until_idle)
        job = reached(options, start, stopping, for_room=True)
        if job is None:
            return 1
        pulse = Pulse(spec, bus, UpMetrics.role, None, registry, job.schemas)
        line, rate = StatusLine(), Rate()
        for status in job.run(stopping):
            _tell(metrics, status)
            pulse.tick(job.ready)
            line.show(describe(spec, status, rate))
        pulse.end()
        code, text = ending(spec, job, options.until_idle)
        line.show(text, last=True)
    return code


def ending(spec: Spec, job: Job, until_idle: bool) -> tuple[int, str]:
    """The exit code and the last line. A run that had nothing but dead letters has failed."""
    newest, new = job.follower.snapshot, job.progress
    counts = Totals() if newest is None else newest.counts
    early = until_idle and not job.idle
    refused = until_idle and not early and new.dead_letters > 0 and new.events <= 0
    drawn = spec.sampling is not None and new.events > 0
    unfinished = "all draws were made" if drawn else "all data was in the posterior"
    how = f"stopped before {unfinished}" if early else "ended"
    if refused:
        how = "failed, every new event is a dead letter"
    keys = f" of {counted(counts.n_keys, kind_of(spec).row)}" if newest and kind_of(spec).has_rows else ""
    text = f"{spec.name}: {how}, {counted(counts.n_events, 'event')}{keys} in the posterior"
    if counts.n_dead_lettered:
        text += f", {counted(counts.n_dead_lettered, 'dead letter')}"
        text += f", {new.dead_letters:,} of them new" if new.dead_letters < counts.n_dead_lettered else ""
        commonest = job.reasons().commonest
        text += f"; most common reason: {commonest}" if commonest else ""
    return (1 if early or refused else 0), text


def _tell(metrics: UpMetrics, status: Status) -> None:
    metrics.alive.set(status.alive)
    metrics.restarts.set(status.restarts)
    metrics.behind.set(status.behind)
    metrics.events.set(status.snapshot.n_events if status.snapshot is not None else 0)


class Rate:
    """Events a second over the last few seconds."""

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []

    def add(self, events: int) -> float:
        now = time.monotonic()
        self._points = [p for p in self._points if now - p[0] <= 3.0] + [(now, events)]
        (then, before) = self._points[0]
        return (events - before) / (now - then) if now > then else 0.0


def describe(spec: Spec, status: Status, rate: Rate) -> str:
    """The live status line."""
    snapshot = status.snapshot
    counts = Totals() if snapshot is None else snapshot.counts
    name = spec.name if len(spec.name) <= NAME else f"{spec.name[: NAME - 3]}..."
    parts = [f"{name}: {counted(counts.n_events, 'event')} in the posterior"]
    if counts.n_dead_lettered:  # early, so that a narrow terminal shows it
        parts.append(counted(counts.n_dead_lettered, "dead letter"))
    parts.append(f"{status.behind:,} to come")
    if status.loading is not None and status.loading.bytes_read < status.loading.bytes_total:
        parts.append(f"loaded {bar(status.loading.bytes_read / max(1, status.loading.bytes_total), 10)}")
    if status.chains:
        parts.append(status.chains)
    else:
        parts.append(f"{rate.add(counts.n_events):,.0f}/s")
    if snapshot is not None and kind_of(spec).has_rows:
        parts.append(counted(counts.n_keys, kind_of(spec).row))
    parts.append(f"version {snapshot.version if snapshot is not None else 0}")
    parts.append(f"{counted(status.alive, 'process', 'processes')}, {counted(status.restarts, 'restart')}")
    return ", ".join(parts)
