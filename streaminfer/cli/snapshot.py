"""show the posterior now, or with --follow as it changes"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Unavailable
from streaminfer.cli.common import add_bus, add_json, add_spec, print_json, print_table
from streaminfer.models.model import Moments
from streaminfer.runtime.connection import Connection
from streaminfer.runtime.view import PosteriorSnapshot
from streaminfer.spec import Drift, Spec, load_spec
from streaminfer.variational import drift
from streaminfer.wire.snapshots import iso

log = logging.getLogger(__name__)

MAX_ROWS = 40
PAUSE = 0.5
"""Seconds before a bus that was away is asked again."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--follow", action="store_true", help="go on with every new snapshot until interrupted")
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    with Connection(open_bus(options.bus, make=options.follow)) as connection:
        if options.follow:
            return _follow(connection, spec, options.json)
        found = connection.snapshot(spec)
        if found is None:
            print(
                f"streaminfer: no posterior {spec.name!r} on {options.bus} yet: start it with `streaminfer up`",
                file=sys.stderr,
            )
            return 1
        if options.json:
            print_json(found.to_json())
        else:
            print_summary(found)
    return 0


def _follow(connection: Connection, spec: Spec, as_json: bool) -> int:
    """Every version once; a bus that is away is waited for."""
    newest = 0
    try:
        while True:
            try:
                for found in connection.subscribe(spec):
                    if found.version > newest:
                        newest = found.version
                        _show(found, as_json)
            except Unavailable as error:
                log.warning("the bus is away: %s", error)
                time.sleep(PAUSE)
    except KeyboardInterrupt:
        return 0


def _show(found: PosteriorSnapshot, as_json: bool) -> None:
    if as_json:
        print_json(found.to_json())
    else:
        print(one_line(found), flush=True)


def print_summary(found: PosteriorSnapshot) -> None:
    """The posterior as a table."""
    snapshot, model = found.snapshot, found.spec.model
    print(f"{found.name}: {model.kind} by {found.spec.inference.method}, {model.exactness}, version {found.version}")
    counts = {"lost": snapshot.n_lost, "in dead-letters": snapshot.n_dead_lettered, "damped": snapshot.n_damped,
              "rejected": snapshot.n_rejected}  # fmt: skip
    rest = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
    if found.spec.inference.windowed:
        rest = f", {found.n_effective:,.15g} of them in the window{rest}"
    elif snapshot.clocks:
        rest = f", worth {found.n_effective:,.6g} by their weights{rest}"
    print(f"{found.n_events:,} events{rest}; {iso(snapshot.created_at)}")
    if snapshot.drift is not None and found.spec.drift is not None:
        print(_drift_line(snapshot.drift, found.spec.drift))
    rows = [row for name, moments in found.moments.items() for row in _rows(name, moments, model.labels.get(name, ()))]
    print_table(["parameter", "mean", "sd"], rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        print(f"... and {len(rows) - MAX_ROWS} more: --json shows all")


def _drift_line(state: drift.State, watch: Drift) -> str:
    alarm = math.log(watch.events_per_false_alarm)
    newest = f", the newest after {state.alarm_at:,} events" if state.n_alarms else ""
    return f"drift: {state.n_alarms:,} alarms{newest}; log evidence {state.log_evidence:.3g}, alarm at {alarm:.3g}"


def one_line(found: PosteriorSnapshot) -> str:
    """Version, events and the first few means."""
    cells = [f"{name} {_short(moments)}" for name, moments in found.moments.items()]
    return f"version {found.version:>6}  {found.n_events:>10,} events  " + "  ".join(cells)


def _rows(name: str, moments: Moments, labels: Sequence[str]) -> Iterator[list[str]]:
    for index in np.ndindex(moments.mean.shape):
        label = f"{name}[{', '.join(labels[i] for i in index)}]" if index else name
        yield [label, f"{moments.mean[index]:.6g}", f"{moments.sd[index]:.3g}"]


def _short(moments: Moments) -> str:
    flat = zip(moments.mean.ravel()[:4], moments.sd.ravel()[:4], strict=True)
    more = " ..." if moments.mean.size > 4 else ""
    return " ".join(f"{mean:.5g}±{sd:.2g}" for mean, sd in flat) + more
