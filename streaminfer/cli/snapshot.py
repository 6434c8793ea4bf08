"""show the posterior now, or with --follow as it changes"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from streaminfer.bus.protocol import Bus, Unavailable, UnknownTopic
from streaminfer.cli import sampling_lines
from streaminfer.cli.common import (
    ABOUT,
    UsageError,
    add_bus,
    add_json,
    add_spec,
    bus_of,
    print_json,
    print_table,
    whole,
)  # fmt: skip
from streaminfer.cli.terminal import printable
from streaminfer.models.keys import label_of
from streaminfer.models.model import Labels, Moments
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.api.draws import NoSampler
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.api.subposterior import NoSuchSubposterior, check_index
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.following.key_listing import KeySummary
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.running.patience import Patience
from streaminfer.sampling import flat
from streaminfer.spec import Drift, Spec, load_spec
from streaminfer.tables.demanded import key_of
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.drift import watching
from streaminfer.variational.forgetting.decay import unevenness
from streaminfer.variational.lda.posterior import AnyTopics
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.snapshots import iso

log = logging.getLogger(__name__)

MAX_ROWS = 40
PICTURES = (".svg", ".png", ".pdf")
TOP_WORDS = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--key", metavar="K", help="the posterior of this key; without it a keyed spec lists its keys")
    parser.add_argument("--subposterior", metavar="J", type=whole(0, 10**6), help="a part of a sampled posterior")
    parser.add_argument("--limit", metavar="N", type=whole(1, 10**6), default=100, help="list N keys (default: 100)")
    parser.add_argument("--after", metavar="KEY", default="", help="list the keys after this one")
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw it: .svg, or with the extra `plots` .png or .pdf"
    )
    parser.add_argument("--follow", action="store_true", help="print every new snapshot until interrupted")
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    _check_options(spec, options)
    with bus_of(options, spec, make=options.follow) as bus:
        connection = Connection(bus)
        if options.follow:
            return _follow(connection, spec, options.json, options.key)
        if kind_of(spec).by_key and options.key is None:
            return list_keys(connection.keys(spec, options.after, options.limit), spec, options.json)
        if options.key is not None and options.json and _print_from_monitor(spec, bus, options.key):
            return 0
        if options.subposterior is not None:
            found = connection.subposterior(spec, options.subposterior)
        else:
            found = connection.snapshot(spec, options.key)
        if found is None:
            among = "" if options.key is None else _among_letters(spec, bus, options)
            print_missing(spec, options.bus, options.key, among, connection.why_missing(spec))
            return 1
        if options.plot is not None:
            _plot(found, options.plot)
        elif options.json:
            print_json(found.to_json())
        else:
            print_summary(found)
    return 0


def _plot(found: PosteriorSnapshot, path: Path) -> None:
    """The densities of the first parameters, as a picture."""
    from streaminfer.http.report import marginals, png, svg

    title = f"{found.name}: {how(found.spec, found.snapshot)}, {counted(found.n_events, 'event')}"
    figures = marginals.figures(found)
    if path.suffix == ".svg":
        path.write_text(svg.sheet(title, figures), encoding="utf-8")
    else:
        try:
            png.sheet(title, figures, path)
        except png.NoMatplotlib as error:
            raise UsageError(f"--plot: {error} (got {str(path)!r})") from error
    print(f"{found.name}: wrote {path}")


def _print_from_monitor(spec: Spec, bus: Bus, key: str) -> bool:
    """Prints the document of a key if a monitor on this machine has it, which need not read the topic."""
    from streaminfer.http.asking import document_of_key
    from streaminfer.runtime.registry import schemas

    found = document_of_key(spec, bus, key, schemas.look_up(spec, bus, ["health"]))
    if found is not None:
        print_json(found)
    return found is not None


def _among_letters(spec: Spec, bus: Bus, options: argparse.Namespace) -> str:
    """Whether dead letters have a key that no event in the posterior has."""
    try:
        found = store.with_key(spec, bus, options.key)
    except UnknownTopic:
        return ""
    if not found.letters:
        return ""
    look = f"see `streaminfer dead-letters {options.spec}`"
    if found.with_key:
        return f", but {found.with_key:,} of the newest {found.letters:,} dead letters do: {look}"
    if found.unknown:
        return f"; {found.unknown:,} of the newest {found.letters:,} dead letters may have it: {look}"
    return f", nor does any of the newest {found.letters:,} dead letters"


def print_missing(spec: Spec, bus: str, key: str | None, among_letters: str = "", why: str | None = None) -> None:
    """Says that there is no posterior, or none of a key."""
    what = f"posterior {spec.name!r} on {bus} yet: {why or 'start it with `streaminfer up`'}"
    if key is not None:
        what = f"{key_of(spec).field} {key!r} in the posterior {spec.name!r} on {bus}: no event has it{among_letters}"
    print(f"streaminfer: no {what}", file=sys.stderr)


def check_key(spec: Spec, options: argparse.Namespace) -> None:
    """Whether --key fits to the spec."""
    if options.key is None:
        return
    if not kind_of(spec).by_key:
        raise UsageError(f"--key: {options.spec} has no key, so there is one posterior for all events")
    try:
        label_of(options.key)
    except ValueError as error:
        raise UsageError(f"--key: {error} (got {options.key[:40]!r})") from error


def _check_options(spec: Spec, options: argparse.Namespace) -> None:
    """Whether the options for keys and subposteriors fit to the spec."""
    check_key(spec, options)
    check_subposterior(spec, options)
    if options.plot is not None:
        _check_plot(spec, options)
    if options.key is None and options.follow and kind_of(spec).by_key:
        raise UsageError("--follow: every key has its own posterior: choose one with --key")


def _check_plot(spec: Spec, options: argparse.Namespace) -> None:
    if options.plot.suffix not in PICTURES:
        raise UsageError(f"--plot: must end in {', '.join(PICTURES)} (got {str(options.plot)!r})")
    if options.follow or options.json:
        raise UsageError("--plot: draws one picture: leave --follow and --json out")
    if kind_of(spec).by_key and options.key is None:
        raise UsageError("--plot: every key has its own posterior: choose one with --key")
    if kind_of(spec).of_topics:
        raise UsageError("--plot: topics have too many numbers to draw: `streaminfer snapshot` lists their words")


def check_subposterior(spec: Spec, options: argparse.Namespace) -> None:
    """Whether --subposterior fits to the spec."""
    index = options.subposterior
    try:
        if index is not None:
            check_index(spec, index)
    except NoSuchSubposterior as error:
        raise UsageError(f"--{error}") from error
    except NoSampler as error:
        raise UsageError(f"{options.spec}: {error}") from error
    if index is not None and options.follow:
        raise UsageError(
            "--follow: a subposterior is shown as it is now; `streaminfer draws --follow` prints its draws"
        )


def list_keys(keys: Sequence[KeySummary], spec: Spec, as_json: bool) -> int:
    """A line for each key."""
    if as_json:
        for each in keys:
            print_json({"name": spec.name, **each._asdict()})
        return 0
    weighted = ["weight"] if spec.inference.forget is not None else []
    rows = [
        [each.key, f"{each.n_events:,}", *([f"{each.n_effective:,.6g}"] if weighted else []), str(each.version)]
        for each in keys
    ]
    print_table([key_of(spec).field, "events", *weighted, "version"], rows)
    return 0


def _follow(connection: Connection, spec: Spec, as_json: bool, key: str | None) -> int:
    """Every version once; a bus that is away is waited for."""
    newest, told, waits = 0, False, Patience(log)
    if not as_json and not kind_of(spec).of_topics:
        print(ABOUT, file=sys.stderr)
    try:
        while True:
            try:
                if not told and not connection.is_there(spec):
                    print(f"no posterior {spec.name!r} yet: waiting for `streaminfer up`", file=sys.stderr)
                told = True
                for found in connection.subscribe(spec, key=key):
                    waits.worked()
                    if found.version != newest:
                        newest = found.version
                        _show(found, as_json)
            except Unavailable as error:
                time.sleep(waits.failed(f"the bus does not answer: {error}"))
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
    print(heading(found))
    counts = snapshot.counts
    named = {"lost": counts.n_lost, "dead-lettered": counts.n_dead_lettered, "damped": counts.n_damped,
             "rejected": counts.n_rejected}  # fmt: skip
    rest = "".join(f", {count:,} {name}" for name, count in named.items() if count)
    if counts.n_unconverged:
        rest += f", {counted(counts.n_unconverged, 'event')} from steps that did not converge"
    if found.spec.inference.windowed and found.sampling is not None:
        rest = f" in the window{rest}"
    elif found.spec.inference.windowed:
        rest = f", {found.n_effective:,.15g} of them in the window{rest}"
    elif snapshot.weighted:
        rest = f", worth {found.n_effective:,.6g} by their weights{rest}"
    print(f"{counted(found.n_events, 'event')}{rest}; {iso(snapshot.created_at)}")
    for line in sampling_lines.lines_of(found):
        print(f"{line}.")
    uneven = unevenness(found.spec.inference.forget, snapshot.frontier.positions) if found.key is None else None
    if uneven is not None:
        print(f"{uneven}.")
    if snapshot.drift is not None and found.spec.drift is not None:
        print(_drift_line(snapshot.drift, found.spec.drift))
    if found.topics is not None:
        print_table(["topic", f"likeliest of {counted(len(found.topics.words), 'word')}"], _topics(found.topics))
        return
    rows = [row for name, moments in found.moments.items() for row in _rows(name, moments, model.labels.get(name, ()))]
    print_table(["parameter", "mean", "sd"], rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        print(f"... and {len(rows) - MAX_ROWS} more: --json shows all")


def heading(found: PosteriorSnapshot) -> str:
    """Which posterior it is, how exact, and which version."""
    name = found.name if found.key is None else f"{found.name} of {printable(found.key)}"
    n_epochs = found.spec.inference.n_epochs
    passes = f", pass {found.epoch + 1} of {n_epochs}" if n_epochs > 1 else ""
    return f"{name}: {how(found.spec, found.snapshot)}, version {found.version}{passes}"


def how(spec: Spec, snapshot: Snapshot | None) -> str:
    """The model, the method and how exact the posterior is."""
    return f"{spec.kind} by {spec.inference.method}, {kind_of(spec).exactness(spec, snapshot)}"


def _topics(topics: AnyTopics) -> list[list[str]]:
    """A row for each topic: its words and their probabilities."""
    found = topics.top(TOP_WORDS)
    return [[str(k), "  ".join(f"{word} {p:.3f}" for word, p in words)] for k, words in enumerate(found)]


def _drift_line(state: watching.State, watch: Drift) -> str:
    alarm = math.log(watch.events_per_false_alarm)
    newest = f", the newest after {counted(state.alarm_at, 'event')}" if state.n_alarms else ""
    alarms = counted(state.n_alarms, "alarm")
    return f"drift: {alarms}{newest}; log evidence {state.log_evidence:.3g}, alarm at {alarm:.3g}"


def one_line(found: PosteriorSnapshot) -> str:
    """Version, events and the first few means, or words."""
    head = f"version {found.version:>6}  {counted(found.n_events, 'event', width=10)}"
    if found.topics is not None:
        return f"{head}  {counted(len(found.topics.words), 'word')}"
    if found.sampling is not None:
        head += f"  {counted(found.sampling['n_draws'], 'draw')} of segment {found.sampling['segment']}"
    cells = [f"{name} {_short(moments)}" for name, moments in found.moments.items()]
    return "  ".join([head, *cells])


def _rows(name: str, moments: Moments, labels: Labels) -> Iterator[list[str]]:
    for index in np.ndindex(moments.mean.shape):
        yield [flat.name_at(name, index, labels), f"{moments.mean[index]:.6g}", f"{moments.sd[index]:.3g}"]


def _short(moments: Moments) -> str:
    flat = zip(moments.mean.ravel()[:4], moments.sd.ravel()[:4], strict=True)
    more = " ..." if moments.mean.size > 4 else ""
    return ", ".join(f"{mean:.5g} ± {sd:.2g}" for mean, sd in flat) + more
