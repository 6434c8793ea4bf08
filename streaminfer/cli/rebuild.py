"""learn the log again with a changed spec, under a new name

The new spec is written to NEW.yaml, beside SPEC. It learns from the data topic of SPEC, which it only reads. The old
posterior stays as it is; readers switch by taking the new spec.
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from pathlib import Path

from streaminfer.bus.protocol import Bus, Unavailable, UnknownTopic
from streaminfer.cli import up
from streaminfer.cli.common import UsageError, add_bus, add_spec, bus_of, whole
from streaminfer.cli.terminal import StatusLine
from streaminfer.runtime import names
from streaminfer.runtime.files import rebuilding
from streaminfer.runtime.files.rebuilding import OtherFile
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.role import Mark, needed
from streaminfer.runtime.running.patience import Patience, log
from streaminfer.runtime.running.process import StopSignal
from streaminfer.services import ROLES
from streaminfer.spec import Spec, load_spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.snapshots import TOPIC

MOST_SHOWN = 5
"""Partitions of which the log has lost something, that are named."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--as", metavar="NEW", dest="name", required=True, help="the name of the new posterior")
    parser.add_argument("--workers", metavar="N", type=whole(1, 256), default=1, help="worker processes (default: 1)")
    parser.add_argument(
        "--only-watch", action="store_true", help="start no services: those of NEW.yaml run elsewhere, as in a cluster"
    )
    add_bus(parser)


def command(options: argparse.Namespace) -> int:
    path = Path(options.spec)
    old = load_spec(path)
    if options.name == old.name:
        raise UsageError(f"--as: must be another name than that of {options.spec} (got {options.name!r})")
    new, file = rebuilding.renamed(path, old, options.name), path.with_name(f"{options.name}.yaml")
    with bus_of(options, old, make=False) as bus:
        names.check_data_topic(new, bus)
        try:
            rebuilding.write(new, file)
        except OtherFile as error:
            raise UsageError(f"--as: {error}") from error
        code = _watch(new, bus) if options.only_watch else _work(options, file)
        if code:
            return code
        print(_caught_up(new, bus, file))
        for line in _lost(old, new, bus):
            print(line)
    return 0


def _work(options: argparse.Namespace, file: Path) -> int:
    """Runs the services of the new spec until all that the log has is in the posterior."""
    how = {"spec": str(file), "data": None, "until_idle": True, "http": None}
    return up.command(argparse.Namespace(**{**vars(options), **how}))


def _watch(new: Spec, bus: Bus) -> int:
    """Waits until services that run elsewhere have learned all that the log has now."""
    stopping, line, waits = StopSignal(), StatusLine(), Patience(log)
    marks: list[Mark] = []
    source: Shards | None = None
    try:
        while not stopping():
            try:
                marks = marks or [role.idle(new, bus) for role in needed(ROLES, new) if role.idle is not None]
                source = source or Shards(new, bus, schemas.look_up(new, bus, [TOPIC]))
                source.poll(0.5)
                waits.worked()
            except (Unavailable, UnknownTopic) as error:
                time.sleep(waits.failed(f"waiting for the services of {new.name}: {error}"))
                continue
            if all(mark.reached(source.snapshot) for mark in marks):
                return 0
            line.show(f"{new.name}: {counted(_n_events(source.snapshot), 'event')} in the posterior")
    finally:
        if source is not None:
            source.close()
    return 1


def _n_events(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None else snapshot.n_events


def _caught_up(new: Spec, bus: Bus, file: Path) -> str:
    with closing(Shards(new, bus, schemas.look_up(new, bus, [TOPIC]))) as source:
        newest = source.catch_up()
    return (
        f"{new.name}: has caught up with {names.data_topic(new)}: {counted(_n_events(newest), 'event')}; spec: {file}"
    )


def _lost(old: Spec, new: Spec, bus: Bus) -> list[str]:
    """What the old posterior may have learned and the new one cannot."""
    found = rebuilding.gone(old, bus)
    if not found:
        return [f"{new.name}: the log has everything that {old.name} has learned from"]
    total = sum(each.end - each.begin for each in found)
    shown = ", ".join(str(each) for each in found[:MOST_SHOWN])
    more = f" and {len(found) - MOST_SHOWN} more partitions" if len(found) > MOST_SHOWN else ""
    return [f"{new.name}: the log no longer has {counted(total, 'position')}: {shown}{more}"]
