"""show the posterior now, or with --follow as it changes"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Unavailable
from streaminfer.cli.common import UsageError, add_bus, add_json, add_spec, print_json, print_table, whole
from streaminfer.models.keys import label_of
from streaminfer.models.model import Labels, Moments
from streaminfer.runtime.connection import Connection
from streaminfer.runtime.key_listing import KeySummary
from streaminfer.runtime.view import PosteriorSnapshot
from streaminfer.spec import Drift, Spec, load_spec
from streaminfer.variational import drift
from streaminfer.variational.topics_posterior import TopicsPosterior
from streaminfer.wire.snapshots import iso

log = logging.getLogger(__name__)

MAX_ROWS = 40
TOP_WORDS = 10
PAUSE = 0.5
"""Seconds before a bus that was away is asked again."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    parser.add_argument("--key", metavar="K", help="the posterior of this key; without it a keyed spec lists its keys")
    parser.add_argument("--limit", metavar="N", type=whole(1, 10**6), default=100, help="list N keys (default: 100)")
    parser.add_argument("--after", metavar="KEY", default="", help="list the keys after this one")
    parser.add_argument("--follow", action="store_true", help="go on with every new snapshot until interrupted")
    add_bus(parser)
    add_json(parser)


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    _check_options(spec, options)
    with Connection(open_bus(options.bus, make=options.follow)) as connection:
        if options.follow:
            return _follow(connection, spec, options.json, options.key)
        if spec.key is not None and options.key is None:
            return list_keys(connection.keys(spec, options.after, options.limit), spec, options.json)
        found = connection.snapshot(spec, options.key)
        if found is None:
            print_missing(spec, options.bus, options.key)
            return 1
        if options.json:
            print_json(found.to_json())
        else:
            print_summary(found)
    return 0


def print_missing(spec: Spec, bus: str, key: str | None) -> None:
    """Says that there is no posterior, or none of a key."""
    what = f"posterior {spec.name!r} on {bus} yet: start it with `streaminfer up`"
    if spec.key is not None and key is not None:
        what = f"{spec.key.field} {key!r} in the posterior {spec.name!r} on {bus}: no event has it"
    print(f"streaminfer: no {what}", file=sys.stderr)


def check_key(spec: Spec, options: argparse.Namespace) -> None:
    """Whether --key fits to the spec."""
    if options.key is None:
        return
    if spec.key is None:
        raise UsageError(f"--key: {options.spec} has no key, so there is one posterior for all events")
    try:
        label_of(options.key)
    except ValueError as error:
        raise UsageError(f"--key: {error} (got {options.key[:40]!r})") from error


def _check_options(spec: Spec, options: argparse.Namespace) -> None:
    """Whether the options for keys fit to the spec."""
    check_key(spec, options)
    if options.key is None and options.follow and spec.key is not None:
        raise UsageError("--follow: there is a posterior for each key: say which with --key")


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
    print_table([spec.key.field if spec.key is not None else "key", "events", *weighted, "version"], rows)
    return 0


def _follow(connection: Connection, spec: Spec, as_json: bool, key: str | None) -> int:
    """Every version once; a bus that is away is waited for."""
    newest, told = 0, False
    try:
        while True:
            try:
                if not told and not connection.is_there(spec):
                    print(f"no posterior {spec.name!r} yet: waiting for `streaminfer up`", file=sys.stderr)
                told = True
                for found in connection.subscribe(spec, key=key):
                    if found.version > newest:
                        newest = found.version
                        _show(found, as_json)
            except Unavailable as error:
                log.warning("the bus is away: %s", error)
                time.sleep(PAUSE)
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
    counts = {"lost": snapshot.n_lost, "in dead-letters": snapshot.n_dead_lettered, "damped": snapshot.n_damped,
              "rejected": snapshot.n_rejected}  # fmt: skip
    rest = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
    if found.spec.inference.windowed:
        rest = f", {found.n_effective:,.15g} of them in the window{rest}"
    elif snapshot.clocks:
        rest = f", worth {found.n_effective:,.6g} by their weights{rest}"
    print(f"{found.n_events:,} events{rest}; {iso(snapshot.created_at)}")
    if snapshot.drift is not None and found.spec.drift is not None:
        print(_drift_line(snapshot.drift, found.spec.drift))
    if found.topics is not None:
        print_table(["topic", f"likeliest of {len(found.topics.words):,} words"], _topics(found.topics))
        return
    rows = [row for name, moments in found.moments.items() for row in _rows(name, moments, model.labels.get(name, ()))]
    print_table(["parameter", "mean", "sd"], rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        print(f"... and {len(rows) - MAX_ROWS} more: --json shows all")


def heading(found: PosteriorSnapshot) -> str:
    """Which posterior it is, how exact, and which version."""
    name = found.name if found.key is None else f"{found.name} of {found.key}"
    n_epochs = found.spec.inference.n_epochs
    passes = f", pass {found.epoch + 1} of {n_epochs}" if n_epochs > 1 else ""
    return f"{name}: {how(found.spec)}, version {found.version}{passes}"


def how(spec: Spec) -> str:
    """The model, the method and how exact the posterior is."""
    return f"{spec.kind} by {spec.inference.method}, {spec.model.exactness}"


def _topics(topics: TopicsPosterior) -> list[list[str]]:
    """A row for each topic: its words and their probabilities."""
    found = topics.top(TOP_WORDS)
    return [[str(k), "  ".join(f"{word} {p:.3f}" for word, p in words)] for k, words in enumerate(found)]


def _drift_line(state: drift.State, watch: Drift) -> str:
    alarm = math.log(watch.events_per_false_alarm)
    newest = f", the newest after {state.alarm_at:,} events" if state.n_alarms else ""
    return f"drift: {state.n_alarms:,} alarms{newest}; log evidence {state.log_evidence:.3g}, alarm at {alarm:.3g}"


def one_line(found: PosteriorSnapshot) -> str:
    """Version, events and the first few means, or words."""
    if found.topics is not None:
        return f"version {found.version:>6}  {found.n_events:>10,} events  {len(found.topics.words):,} words"
    cells = [f"{name} {_short(moments)}" for name, moments in found.moments.items()]
    return f"version {found.version:>6}  {found.n_events:>10,} events  " + "  ".join(cells)


def _rows(name: str, moments: Moments, labels: Labels) -> Iterator[list[str]]:
    axes: tuple[Any, ...] = labels if labels and isinstance(labels[0], tuple) else (labels,) * moments.mean.ndim
    for index in np.ndindex(moments.mean.shape):
        label = f"{name}[{', '.join(axis[i] for axis, i in zip(axes, index, strict=True))}]" if index else name
        yield [label, f"{moments.mean[index]:.6g}", f"{moments.sd[index]:.3g}"]


def _short(moments: Moments) -> str:
    flat = zip(moments.mean.ravel()[:4], moments.sd.ravel()[:4], strict=True)
    more = " ..." if moments.mean.size > 4 else ""
    return " ".join(f"{mean:.5g}±{sd:.2g}" for mean, sd in flat) + more
