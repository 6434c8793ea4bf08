"""print, follow or export the draws of a sampled posterior"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from streaminfer.bus.protocol import Bus, Unavailable, UnknownTopic
from streaminfer.cli.common import UsageError, add_bus, add_json, add_spec, bus_of, print_json, print_table, whole
from streaminfer.runtime.api import draws as api
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.api.draws import Draw, DrawsOnBus, Selection
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.running.patience import Patience
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec, load_spec
from streaminfer.tables.kinds import drawn_of

log = logging.getLogger(__name__)

NUMBERS = 4
"""Numbers of a draw that a line shows."""
LAST = 5
"""Draws of each chain that are shown without --follow."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--segment", metavar="N", type=whole(0, 10**9), help="of this segment (default: the newest)")
    parser.add_argument("--subposterior", metavar="J", type=whole(0, 10**6), help="of this subposterior only")
    parser.add_argument("--chain", metavar="C", type=whole(0, 63), help="of this chain only")
    parser.add_argument("--follow", action="store_true", help="print every new draw until interrupted")
    parser.add_argument("--netcdf", metavar="FILE", type=Path, help="write all draws in the layout of ArviZ")
    parser.add_argument("--parquet", metavar="FILE", type=Path, help="write all draws, a row for each")
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    try:
        settings = api.settings_of(spec)
    except api.NoSampler as error:
        raise UsageError(f"{options.spec}: {error}") from error
    for name, most in (("subposterior", settings.subposteriors), ("chain", settings.chains)):
        given = getattr(options, name)
        if given is not None and given >= most:
            raise UsageError(f"--{name}: must be below {most}, as the spec says (got {given})")
    _check_files(settings, options)
    chosen = Selection(options.segment, options.subposterior, options.chain)
    with bus_of(options, spec, make=options.follow) as bus:
        return _follow(spec, bus, chosen, options.json) if options.follow else _now(spec, bus, chosen, options)


def _check_files(settings: Settings, options: argparse.Namespace) -> None:
    """Whether a file can be written, and has the draws of one target if it has chains."""
    if options.follow and (options.netcdf or options.parquet):
        raise UsageError("--follow: a file has the draws of one moment: leave --follow out")
    if options.netcdf and options.subposterior is None and settings.subposteriors > 1:
        last = settings.subposteriors - 1
        raise UsageError(
            f"--netcdf: its chains must be of one target, and the spec has {last + 1} subposteriors: choose one with "
            f"--subposterior 0 to {last}"
        )
    for name in ("netcdf", "parquet"):
        path = getattr(options, name)
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            rule = "is a folder" if path.is_dir() else f"the folder {path.parent} does not exist"
            raise UsageError(f"--{name}: must be a file that can be written (got {path}: {rule})")


def _opened(spec: Spec, bus: Bus, chosen: Selection) -> DrawsOnBus:
    return DrawsOnBus(spec, bus, schemas.look_up(spec, bus, ["draws"]), chosen)


def _now(spec: Spec, bus: Bus, chosen: Selection, options: argparse.Namespace) -> int:
    try:
        source = _opened(spec, bus, chosen)
    except UnknownTopic:
        source = None
    blocks = []
    if source is not None:
        with closing(source):
            blocks = source.all()
    if source is None or not blocks:
        there = [] if source is None else source.segments
        print(_missing(spec, Connection(bus), options, there), file=sys.stderr)
        return 1
    draws = list(source.rows(blocks))
    _write(spec, blocks, draws, options)
    if options.json:
        for draw in draws:
            print_json(draw.to_json())
    elif not (options.netcdf or options.parquet):
        _print(spec, draws)
    return 0


def _missing(spec: Spec, connection: Connection, options: argparse.Namespace, there: list[int]) -> str:
    """Why there are no draws to show."""
    if there:
        kept = "segment " + " and ".join(map(str, there))
        return f"streaminfer: no draws of segment {options.segment} of {spec.name!r}: there are those of {kept}"
    why = connection.why_missing(spec) or "start it with `streaminfer up`"
    return f"streaminfer: no draws of {spec.name!r} on {options.bus} yet: {why}"


def _write(spec: Spec, blocks: list[Draws], draws: list[Draw], options: argparse.Namespace) -> None:
    """The files that are wanted; says what is in them."""
    try:
        if options.netcdf:
            api.write_netcdf(spec, blocks, options.netcdf)
        if options.parquet:
            api.write_parquet(draws, options.parquet)
    except ImportError as error:
        raise UsageError(str(error)) from error
    for path in filter(None, (options.netcdf, options.parquet)):
        print(f"{path}: {_counts(draws)}", file=sys.stderr)


def _counts(draws: list[Draw]) -> str:
    chains, segments = {(draw.subposterior, draw.chain) for draw in draws}, sorted({draw.segment for draw in draws})
    named = f"{'segment' if len(segments) == 1 else 'segments'} {', '.join(map(str, segments))}"
    return f"{counted(len(draws), 'draw')} of {counted(len(chains), 'chain')}, {named}"


def _print(spec: Spec, draws: list[Draw]) -> None:
    """How many there are, and the last ones of each chain."""
    chains: dict[tuple[int, int], list[Draw]] = {}
    for draw in draws:
        chains.setdefault((draw.subposterior, draw.chain), []).append(draw)
    print(_counts(draws))
    last = [draw for _, chain in sorted(chains.items()) for draw in chain[-LAST:]]
    names = _columns(spec, last[0])
    rows = [[str(draw.subposterior), str(draw.chain), str(draw.draw), *_cells(draw)] for draw in last]
    print_table(["subposterior", "chain", "draw", *names], rows)
    print(f"the last {LAST} of each chain; --json prints all, --netcdf and --parquet write files")


def _columns(spec: Spec, draw: Draw) -> list[str]:
    """The names of the first numbers, as `snapshot` has them."""
    shapes = {name: value.shape for name, value in draw.parameters.items()}
    return list(islice(flat.names(shapes, drawn_of(spec).labels(spec)), NUMBERS))


def _cells(draw: Draw) -> list[str]:
    numbers = np.concatenate([value.ravel() for value in draw.parameters.values()])
    return [f"{number:.6g}" for number in numbers[:NUMBERS].tolist()]


def _follow(spec: Spec, bus: Bus, chosen: Selection, as_json: bool) -> int:
    """Every draw once, those that are there first; a bus that is away is waited for."""
    waits, source = Patience(log), None
    try:
        while True:
            try:
                source = source or _opened(spec, bus, chosen)
                for draw in source.rows(source.poll(0.5)):
                    if chosen.segment in {None, draw.segment}:
                        _show(spec, draw, as_json)
                waits.worked()
            except (Unavailable, UnknownTopic) as error:
                time.sleep(waits.failed(f"waiting for draws: {error}"))
    except KeyboardInterrupt:
        return 0
    finally:
        if source is not None:
            source.close()


def _show(spec: Spec, draw: Draw, as_json: bool) -> None:
    if as_json:
        print_json(draw.to_json())
        return
    numbers = "  ".join(f"{name} {cell}" for name, cell in zip(_columns(spec, draw), _cells(draw), strict=True))
    part = (
        f"subposterior {draw.subposterior}  " if spec.sampling is not None and spec.sampling.subposteriors > 1 else ""
    )
    print(f"segment {draw.segment}  {part}chain {draw.chain}  draw {draw.draw:>6}  {numbers}", flush=True)
