"""write the posterior, and the statistics that its master keeps, to a file"""

from __future__ import annotations

import argparse
from pathlib import Path

from streaminfer.cli.common import UsageError, add_bus, add_spec, bus_of
from streaminfer.runtime.files.backup import back_up
from streaminfer.runtime.plurals import counted
from streaminfer.spec import load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write; one that is there is replaced")
    add_bus(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    path: Path = options.file
    special = path.exists() and not path.is_file()
    if special or not path.parent.is_dir():
        rule = "is not a file" if special else f"the folder {path.parent} does not exist"
        raise UsageError(f"FILE: must be a file that can be written (got {path}: {rule})")
    with bus_of(options, spec, make=False) as bus:
        newest = back_up(spec, bus, path)
    print(f"{spec.name}: wrote {path}: version {newest.version}, {counted(newest.n_events, 'event')}")
    return 0
