"""put a backup of a posterior back on a bus, if the bus does not have a newer one"""

from __future__ import annotations

import argparse
from pathlib import Path

from streaminfer.cli.common import add_bus, add_spec, bus_of
from streaminfer.runtime.files.backup import load
from streaminfer.runtime.files.restore import restore
from streaminfer.runtime.plurals import counted
from streaminfer.spec import load_spec


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("file", metavar="FILE", type=Path, help="what `streaminfer backup` wrote")
    parser.add_argument(
        "--new-log",
        action="store_true",
        help="the data topic is another one than that of the backup: learn all that it has",
    )
    add_bus(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    backup = load(spec, options.file)
    with bus_of(options, spec) as bus:
        written = restore(spec, bus, backup, options.new_log)
    print(
        f"{spec.name}: restored version {backup.snapshot.version} as version {written.version}, "
        f"{counted(backup.snapshot.n_events, 'event')}"
    )
    return 0
