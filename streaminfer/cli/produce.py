"""put a file of events (CSV or NDJSON) onto the data topic

Killed and started again it goes on where it stopped; run again after it has ended, it appends the file again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from streaminfer.bus.connect import open_bus
from streaminfer.cli.common import add_bus, add_json, add_spec, print_json
from streaminfer.cli.terminal import StatusLine, bar
from streaminfer.runtime import names
from streaminfer.runtime.produce import Loader, Progress
from streaminfer.spec import load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("file", metavar="FILE", type=Path, help="a .csv, .ndjson or .jsonl file")
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    names.own_data_topic(spec)
    line = StatusLine()
    started = time.monotonic()
    with open_bus(options.bus) as bus:
        names.create_topics(spec, bus)
        loader = Loader(spec, bus, options.file)
        progress = Progress(0, 0, 1)
        for progress in loader.run():
            line.show(describe(progress, loader.resumed, started))
        line.show(describe(progress, loader.resumed, started), last=True)
    if options.json:
        print_json({"file": str(options.file), "rows": progress.rows, "resumed": loader.resumed})
    return 0


def describe(progress: Progress, resumed: int, started: float) -> str:
    """The progress bar of a load."""
    share = progress.bytes_read / max(1, progress.bytes_total)
    rate = (progress.rows - resumed) / max(1e-9, time.monotonic() - started)
    before = f" ({resumed:,} of them by an earlier run)" if resumed else ""
    return f"{bar(share)} {progress.rows:,} events{before}, {rate:,.0f}/s"
