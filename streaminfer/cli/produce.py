"""put a file of events (CSV, NDJSON, Parquet, Avro) or standard input onto the data topic, in the spec's data format

Killed and started again it goes on where it stopped; run again after it has ended, it appends the file again. Standard
input cannot be read again, so nothing is resumed there.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from streaminfer.bus.protocol import Bus, Unavailable
from streaminfer.cli.common import add_bus, add_file, add_json, add_spec, bus_of, check_file, print_json, whole
from streaminfer.cli.terminal import StatusLine, bar
from streaminfer.runtime import names, provide
from streaminfer.runtime.dead_letters.tally import Tally
from streaminfer.runtime.loading.produce import Loader, Piped, Progress, check_spec
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.spec import Spec, load_spec

REASONS = 10
"""Reasons of dead letters in --json, at most."""
COMMITS_A_SECOND = 10
"""With a rate: how even the stream is."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    add_file(parser)
    parser.add_argument("--rate", metavar="N", type=whole(1, 10**9), help="at most N events a second")
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    names.own_data_topic(spec)
    check_file(options)
    line = StatusLine(at_once=False)
    with bus_of(options, spec) as bus:
        provide.topics(spec, bus, "produce")
        _check_spec(spec, bus)
        loader = _loader(spec, bus, options)
        progress = Progress(0, 0, 1)
        started = time.monotonic()
        for progress in loader.run():
            line.show(describe(progress, loader.resumed, started))
            if options.rate:
                _wait(started + (progress.rows - loader.resumed) / options.rate)
        sent, refused = progress.rows - loader.resumed, loader.refused
        line.show(f"{describe(progress, loader.resumed, started)}{foretold(sent, refused)}", last=True)
    if options.json:
        counts = {"rows": progress.rows, "resumed": loader.resumed, "dead_letters": refused.count}
        reasons = [{"count": each.count, "reason": each.reason} for each in refused.reasons()[:REASONS]]
        print_json({"file": options.file, **counts, "reasons": reasons})
    return 1 if sent and refused.count == sent else 0


def foretold(sent: int, refused: Tally) -> str:
    """What will become of the events that no worker can absorb; the rest is for the worker to judge."""
    if not refused.count:
        return ""
    which = "every one" if refused.count == sent else f"{refused.count:,}"
    what = "a dead letter" if refused.count in {1, sent} else "dead letters"
    return f"; {which} of them will be {what}; most common reason: {refused.commonest}"


def _check_spec(spec: Spec, bus: Bus) -> None:
    """Refuses events for a posterior of another spec, if the schema registry can say which records are a posterior."""
    try:
        ids = schemas.look_up(spec, bus, ["posterior"])
    except Unavailable:
        return
    check_spec(spec, bus, ids)


def _loader(spec: Spec, bus: Bus, options: argparse.Namespace) -> Loader | Piped:
    ids = schemas.for_events(spec, bus)
    rows = max(1, options.rate // COMMITS_A_SECOND) if options.rate else None
    if options.file != "-":
        return Loader(spec, bus, Path(options.file), ids, rows, options.bus_timeout, judged=True)
    print("standard input cannot be read again: if this is interrupted, it cannot be resumed", file=sys.stderr)
    return Piped(spec, bus, sys.stdin.buffer, options.format, ids, rows)


def _wait(until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic()))


def describe(progress: Progress, resumed: int, started: float) -> str:
    """The progress bar of a load; without a known end, only how much there was."""
    share = f"{bar(progress.bytes_read / progress.bytes_total)} " if progress.bytes_total else ""
    rate = (progress.rows - resumed) / max(1e-9, time.monotonic() - started)
    before = f" ({resumed:,} of them by an earlier run)" if resumed else ""
    return f"{share}{counted(progress.rows, 'event')}{before}, {rate:,.0f}/s"
