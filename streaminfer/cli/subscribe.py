"""keep the newest snapshot in a file, for a program that predicts from it"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

from prometheus_client import CollectorRegistry

from streaminfer.bus.connect import open_bus
from streaminfer.cli.common import UsageError, add_bus, add_spec, whole
from streaminfer.cli.snapshot import check_key
from streaminfer.runtime.files.snapshot_file import SnapshotFile
from streaminfer.runtime.files.subscriber import Freshness, Subscriber
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.running import loop
from streaminfer.runtime.running.health import Health, parse_address, serve
from streaminfer.runtime.running.patience import patiently
from streaminfer.runtime.running.process import StopSignal
from streaminfer.runtime.telemetry import SubscriberMetrics, about_process
from streaminfer.spec import Spec, load_spec
from streaminfer.variational.snapshot import Snapshot


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--to", metavar="DIRECTORY", type=Path, required=True, help="the folder of the file")
    parser.add_argument("--key", metavar="K", help="of this key only; without it the file has all keys")
    parser.add_argument(
        "--max-age", metavar="SECONDS", type=whole(1, 10**9), help="not ready if the snapshot is older than this"
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="serve health and metrics at this address")
    parser.add_argument("--once", action="store_true", help="end when the file has been written")
    add_bus(parser, serves=True)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    check_key(spec, options)
    address = parse_address(options.http) if options.http else None
    if not options.to.is_dir():
        raise UsageError(f"--to: must be a folder that exists (got {str(options.to)!r})")
    file, registry = SnapshotFile(spec, options.to, options.key), CollectorRegistry()
    fresh, metrics = Freshness(file, time.time, options.max_age), SubscriberMetrics(registry, spec.name)
    about_process(registry)
    health, stopped = Health(registry), StopSignal()

    def stopping() -> bool:
        return stopped() or (options.once and file.newest is not None)

    def beat(_: bool) -> None:
        """It may be used also while the bus is away."""
        health.beat(fresh())

    with ExitStack() as stack:
        if address is not None:
            stack.enter_context(serve(health, *address))
        bus = patiently(lambda: open_bus(options.bus), stopping, beat)
        if bus is None:
            return 0
        stack.enter_context(closing(bus))
        loop.run(lambda: Subscriber(spec, bus, file, fresh, metrics, time.monotonic, options.key), stopping, beat)
    if options.once and file.newest is not None:
        print(_written(spec, file, file.newest), file=sys.stderr)
    return 1 if options.once and file.newest is None else 0


def _written(spec: Spec, file: SnapshotFile, newest: Snapshot) -> str:
    return f"{spec.name}: wrote {file.path}: version {newest.version}, {counted(newest.n_events, 'event')}"
