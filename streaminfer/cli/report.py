"""write a report of a posterior: one HTML file that needs nothing else

It says what the dashboard says, at one moment. It reads what is on the bus; no monitor need run, but only one that ran
has measured.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from streaminfer.cli.common import UsageError, add_bus, add_spec, bus_of
from streaminfer.http.report import content, html, png
from streaminfer.runtime.monitoring import once
from streaminfer.runtime.monitoring.memory import filling
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.spec import load_spec
from streaminfer.wire.snapshots import iso


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the file (default: NAME-report.html)")
    parser.add_argument("--png", metavar="DIR", type=Path, help="also write each picture as a PNG file (extra `plots`)")
    add_bus(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    path = options.output or Path(f"{spec.name}-report.html")
    now = round(time.time() * 1000)
    with bus_of(options, spec, make=False) as bus:
        memory = Memory(spec, "report")
        filling.fill_once(spec, bus, memory, schemas.look_up(spec, bus, ["posterior", "metrics", "health"]))
        found = once.read(spec, bus, now)
    made = content.sections(memory, found.verdict)
    about = f"{spec.kind} by {spec.inference.method}, {counted(found.state.n_events, 'event')}, as of {iso(now)}"
    try:
        _replace(path, html.page(f"{spec.name}: report", about, made))
        pictures = png.write(content.figures(made), options.png) if options.png is not None else []
    except png.NoMatplotlib as error:
        raise UsageError(f"--png: {error}") from error
    said = f"{spec.name}: {found.verdict.verdict.replace('_', ' ')}; wrote {path}"
    print(said if not pictures else f"{said} and {counted(len(pictures), 'picture')} in {options.png}")
    return 0


def _replace(path: Path, text: str) -> None:
    """A reader never sees half a file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
