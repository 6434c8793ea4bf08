"""show what is in the way of a posterior's restore, and step over it when you say so"""

from __future__ import annotations

import argparse
import sys
import time

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus, Fenced
from streaminfer.cli import repair_sampled
from streaminfer.cli.common import UsageError, add_bus, add_spec, bus_of
from streaminfer.runtime import names
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec, load_spec
from streaminfer.wire.avro import Schemas


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_bus(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    if not options.yes and not sys.stdin.isatty():
        raise UsageError(
            "repair: nothing was changed: it asks before it changes anything, and standard input is not a terminal "
            "that could answer. Run it in a terminal, or add --yes to change without a question"
        )
    with bus_of(options, spec, make=False) as bus:
        known = schemas.prepare(spec, bus, "repair")
        if spec.sampling is not None:
            return 0 if repair_sampled.repaired(spec, spec.sampling, bus, known, options.yes or _agreed) else 1
        left = [
            index
            for index in sorted(bus.ends(names.topic(spec, "posterior")))
            if not _repaired(spec, bus, index, known, options.yes)
        ]
    return 1 if left else 0


def _repaired(spec: Spec, bus: Bus, index: int, known: Schemas, yes: bool) -> bool:
    """Whether nothing is in the way of a shard any more."""
    where = f"{names.topic(spec, 'posterior')}-{index}"
    try:
        shard = _opened(spec, bus, index, known, start_over=False)
    except Fatal as error:
        print(f"{where}: {error}")
        shard = _opened(spec, bus, index, known, start_over=True)
        what = "start over from the prior, and read again all events that are still in the log"
    else:
        what = (
            f"continue from version {shard.published.version} with {counted(shard.published.n_events, 'event')}, "
            "and read all later events again"
        )
    try:
        if not shard.in_the_way:
            print(f"{where}: nothing to repair")
            return True
        for each in shard.in_the_way:
            print(f"  blocked by {each}")
        if not yes and not _agreed(f"{where}: {what}?"):
            return False
        shard.commit(None, int(time.time() * 1000))
    except Fenced as error:
        raise Fatal(f"{where}: a master has taken over meanwhile: stop `up` or the master first ({error})") from error
    finally:
        shard.close()
    print(f"{where}: done: {what}")
    return True


def _opened(spec: Spec, bus: Bus, index: int, known: Schemas, start_over: bool) -> Shard:
    shard = Shard(spec, bus, index, MasterMetrics(CollectorRegistry(), spec.name), known, start_over)
    try:
        while not shard.restored():
            pass
    except BaseException:
        shard.close()
        raise
    return shard


def _agreed(question: str) -> bool:
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
