"""predict new rows of a file (CSV, NDJSON, Parquet, Avro) or of standard input, which need not have the target

Rows are numbered from 0. One that cannot be read is told with the reason, and all others are predicted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.cli.common import (
    LongTable,
    UsageError,
    add_bus,
    add_file,
    add_json,
    add_spec,
    bus_of,
    check_file,
    print_json,
    share,
)
from streaminfer.cli.snapshot import check_key, heading, how, print_missing
from streaminfer.cli.terminal import StatusLine, bar
from streaminfer.models.events import Field
from streaminfer.runtime.api import prediction
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.api.predictor import Answer, Predictor, labels_of
from streaminfer.runtime.api.snapshot import plain
from streaminfer.runtime.loading.files import Counted, FileError
from streaminfer.runtime.loading.gzipped import lines_of
from streaminfer.runtime.loading.readers import STREAMED, reader_of
from streaminfer.spec import Spec, load_spec
from streaminfer.tables.demanded import key_of
from streaminfer.tables.kinds import kind_of

INTERVAL = 0.95
PORTION = 1000
"""Rows that are predicted at once."""
LARGEST = 5
"""How many numbers without names, such as those of topics, a table shows."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_spec(parser)
    add_file(parser)
    parser.add_argument(
        "--key", metavar="K", help="predict with the posterior of this key; without it, each row uses its own key"
    )
    parser.add_argument(
        "--interval",
        metavar="P",
        type=share,
        help=f"the probability that an interval contains the value (default: {INTERVAL})",
    )
    add_bus(parser)
    add_json(parser)


class Source(NamedTuple):
    """The file, and which fields it must have."""

    spec: Spec
    options: argparse.Namespace
    needed: Sequence[Field]

    @contextmanager
    def rows(self) -> Iterator[tuple[Iterator[bytes], Counted, int]]:
        """The rows as JSON texts, how many bytes of the file were read, and how many there are (0: not known)."""
        file = self.options.file
        if file == "-":
            lines = Counted(sys.stdin.buffer, "standard input")
            yield STREAMED[self.options.format](self.spec, lines, "standard input", self.needed), lines, 0
            return
        reader, path = reader_of(Path(file)), Path(file)
        if not path.is_file():
            raise FileError(f"{path}: is not a file that can be read")
        with lines_of(path) as lines:
            yield reader(self.spec, lines, file, self.needed), lines, path.stat().st_size


def command(options: argparse.Namespace) -> int:
    spec = load_spec(options.spec)
    inputs = prediction.inputs_of(spec)
    check_key(spec, options)
    check_file(options)
    own_keys = spec.key_field if options.key is None else None
    if own_keys is not None and options.file == "-":
        raise UsageError(
            f"-: rows that each have a {own_keys.name} of their own need a file, which is read twice: say --key, or "
            "name a file"
        )
    source = Source(spec, options, inputs if own_keys is None else (*inputs, own_keys))
    with bus_of(options, spec, make=False) as bus:
        connection = Connection(bus)
        predictor = _predictor(connection, source, own_keys)
        why = connection.why_missing(spec) if predictor is None else None
    if predictor is None:
        print_missing(spec, options.bus, options.key, why=why)
        return 1
    if options.interval is not None and not predictor.has_intervals:
        raise UsageError(f"--interval: {spec.kind} predicts probabilities without an interval; leave it out")
    _tell_which(predictor, options.json)
    return _predict(source, predictor, JsonLines() if options.json else TableLines(predictor))


def _predictor(connection: Connection, source: Source, own_keys: Field | None) -> Predictor | None:
    """From the posterior as it is now, or those of the keys that the file has."""
    spec, level = source.spec, source.options.interval or INTERVAL
    if own_keys is None:
        found = connection.snapshot(spec, source.options.key)
        return None if found is None else Predictor(spec, source.needed, level, found)
    keyed = connection.by_key(spec, _keys(source, own_keys))
    return None if keyed is None else Predictor(spec, source.needed, level, keyed)


def _keys(source: Source, field: Field) -> set[bytes]:
    """The keys that the file has: a first reading of it."""
    status, begin, done, labels = StatusLine(), time.monotonic(), 0, set[bytes]()
    with source.rows() as (rows, counted, total):
        for part in _portions(rows):
            labels.update(labels_of(field, part))
            done += len(part)
            if done > PORTION:
                status.show(f"{_progress(done, begin, counted.n_read, total)}: looking for keys")
    return labels


def _tell_which(predictor: Predictor, as_json: bool) -> None:
    """Which posterior predicts and how exact it is; beside documents only if it is not exact."""
    spec, found = predictor.spec, predictor.snapshot
    text = (
        f"{spec.name}: {how(spec, None)}; each row with the posterior of its own key"
        if found is None
        else heading(found)
    )
    if not as_json:
        print(text)
    elif kind_of(spec).exactness(spec, None if found is None else found.snapshot) != "exact":
        print(text, file=sys.stderr)


def _portions(rows: Iterator[bytes]) -> Iterator[list[bytes]]:
    while part := list(islice(rows, PORTION)):
        yield part


def _predict(source: Source, predictor: Predictor, lines: JsonLines | TableLines) -> int:
    """All rows, a portion at a time; 1 if none of them could be read."""
    status, begin, done, bad = StatusLine(), time.monotonic(), 0, 0
    with source.rows() as (rows, counted, total):
        for part in _portions(rows):
            answers = predictor.answers(part, done)
            lines.show(answers)
            done += len(part)
            bad += sum(each.error is not None for each in answers)
            if done > PORTION and not sys.stdout.isatty():
                status.show(_progress(done, begin, counted.n_read, total))
    status.show(f"{done - bad:,} of {done:,} rows predicted", last=True)
    return 1 if done and bad == done else 0


def _progress(done: int, begin: float, read: int, total: int) -> str:
    part = f"{bar(read / total)} " if total else ""
    return f"{part}{done:,} rows, {done / max(1e-9, time.monotonic() - begin):,.0f}/s"


class JsonLines:
    """One document for each row."""

    def show(self, answers: Sequence[Answer]) -> None:
        for each in answers:
            print_json(each.to_json())


class TableLines:
    """One line for each row, or if predictions have names, for each name; a bad row has its reason there."""

    def __init__(self, predictor: Predictor) -> None:
        spec = predictor.spec
        self._outputs, self._keyed = predictor.outputs, kind_of(spec).by_key
        key = [key_of(spec).field, "known"] if self._keyed else []
        self._table = LongTable(["row", *key, *(["output"] if self._outputs else []), *predictor.columns])

    def show(self, answers: Sequence[Answer]) -> None:
        self._table.add([line for each in answers for line in self._lines(each)])

    def _lines(self, answer: Answer) -> Iterator[list[str]]:
        first = [str(answer.row)]
        if answer.error is not None:
            yield [*first, answer.error]
            return
        if self._keyed:
            first += [str(answer.key), "yes" if answer.known else "no"]
        for i, name in enumerate(self._outputs):
            yield [*first, name, *(_cell(value[i] if value.ndim else value) for value in answer.values.values())]
        if not self._outputs:
            yield [*first, *(_cell(value) for value in answer.values.values())]


def _cell(value: NDArray[np.float64]) -> str:
    """A number; if there are several, the largest, each after its place."""
    if value.ndim == 0:
        return "-" if plain(value) is None else f"{value:.6g}"
    order = np.argsort(-value, kind="stable")[:LARGEST].tolist()
    return "  ".join(f"{i} {value[i]:.3f}" for i in order)
