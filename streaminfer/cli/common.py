"""What commands share: the spec, the bus, JSON lines and tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from streaminfer.bus.connect import default_url, open_bus, shown
from streaminfer.bus.protocol import Bus, UnknownTopic
from streaminfer.cli.terminal import printable
from streaminfer.runtime import logs, names
from streaminfer.runtime.loading.readers import KINDS, STREAMED
from streaminfer.runtime.running.patience import patiently
from streaminfer.spec import Spec, warnings_of

BUS_TIMEOUT: Final = 30
"""Seconds for which a command waits for a bus that does not answer."""

T = TypeVar("T")

ABOUT = "mean ± sd: ± is one standard deviation of the posterior"
"""What commands mean by ±."""


class UsageError(ValueError):
    """Arguments that are right one by one but not together."""


def add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="the spec, a YAML file")


def warn(spec: Spec, file: str) -> None:
    """Says on standard error what a spec may say and its author may not want."""
    for line in warnings_of(spec):
        logs.complain(f"warning: {file}: {line}")


def add_bus(parser: argparse.ArgumentParser, serves: bool = False) -> None:
    """The bus; and how long to wait for it, unless a command `serves`: those wait for ever."""
    here = shown(default_url()).replace("%", "%%")
    parser.add_argument(
        "--bus",
        metavar="URL",
        default=default_url(),
        help=f"the bus (default: STREAMINFER_BUS, else embedded:./.streaminfer; here: {here})",
    )
    if not serves:
        parser.add_argument(
            "--bus-timeout",
            metavar="SECONDS",
            type=whole(1, 10**6),
            default=BUS_TIMEOUT,
            help="give up on a bus that has not answered for this long (default: %(default)s)",
        )


def reached(
    options: argparse.Namespace,
    attempt: Callable[[], T],
    stopping: Callable[[], bool] = lambda: False,
    beat: Callable[[bool], None] = lambda _: None,
    for_room: bool = False,
) -> T | None:
    """What an attempt gives once the bus takes it; None if `stopping` comes first.

    Raises Unavailable after --bus-timeout seconds in which the bus did not; `for_room` waits on for a full disk.
    """
    return patiently(attempt, stopping, beat, options.bus_timeout, for_room)


@contextmanager
def bus_of(options: argparse.Namespace, spec: Spec, make: bool = True) -> Iterator[Bus]:
    """The bus of a command that a person waits for, once it answers; see `reached`."""
    found = reached(options, lambda: answering(options.bus, spec, make))
    assert found is not None  # noqa: S101 (nothing stops it)
    with found as bus:
        yield bus


def answering(url: str, spec: Spec, make: bool = True) -> Bus:
    """The bus at a URL, which has answered a question: a Kafka bus is opened without a word to the brokers."""
    bus = open_bus(url, make)
    try:
        bus.ends(names.topic(spec, "posterior"))
    except UnknownTopic:
        return bus  # that is an answer too
    except BaseException:
        bus.close()
        raise
    return bus


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document a line, and nothing else")


def whole(low: int, high: int) -> Callable[[str], int]:
    """An argument that is a whole number between two bounds."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"must be a whole number from {low} to {high} (got {text!r})")
        return int(text)

    return parse


def share(text: str) -> float:
    """An argument that is a number between 0 and 1."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, such as 0.95 (got {text!r})")
    return number


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help=f"a file ending in {', '.join(KINDS)}, or - for standard input")
    parser.add_argument("--format", choices=STREAMED, help="the format of standard input (only with -)")


def check_file(options: argparse.Namespace) -> None:
    """Whether it is known of what kind the file is."""
    if options.file == "-" and options.format is None:
        raise UsageError(
            f"-: standard input has no file name that tells its format: add --format {' or --format '.join(STREAMED)}"
        )
    if options.file != "-" and options.format is not None:
        raise UsageError(
            f"{options.file}: --format is for standard input (-); the end of its name tells the format of a file"
        )


def print_json(document: Any) -> None:
    """One document on one line of standard output, at once."""
    print(json.dumps(document, ensure_ascii=False, allow_nan=False), flush=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they must be; columns of numbers to the right."""
    columns = list(zip(header, *([printable(cell) for cell in row] for row in rows), strict=True))
    aligned = [_aligned(column) for column in columns]
    for cells in zip(*aligned, strict=True):
        print("  ".join(cells).rstrip())
    sys.stdout.flush()


class LongTable:
    """A table that is printed in portions; the first one says how wide columns are, and which hold numbers."""

    def __init__(self, header: Sequence[str]) -> None:
        self._header, self._forms = header, list[tuple[int, bool]]()

    def add(self, rows: Sequence[Sequence[str]]) -> None:
        """Prints rows; one with fewer cells than columns has a remark in its last one."""
        rows = [[printable(cell) for cell in row] for row in rows]
        whole = [row for row in rows if len(row) == len(self._header)]
        if not self._forms:
            self._forms = [_form(column) for column in zip(self._header, *whole, strict=True)]
            self._print(self._header)
        for row in rows:
            self._print(row)
        sys.stdout.flush()

    def _print(self, row: Sequence[str]) -> None:
        remark = row[-1:] if len(row) < len(self._header) else []
        cells = [_padded(cell, form) for cell, form in zip(row[: len(row) - len(remark)], self._forms, strict=False)]
        print("  ".join([*cells, *remark]).rstrip())


def _aligned(column: Sequence[str]) -> list[str]:
    form = _form(column)
    return [_padded(cell, form) for cell in column]


def _form(column: Sequence[str]) -> tuple[int, bool]:
    """How wide a column is, and whether it holds numbers."""
    return max(map(len, column)), all(_is_number(cell) for cell in column[1:])


def _padded(cell: str, form: tuple[int, bool]) -> str:
    width, numeric = form
    return cell.rjust(width) if numeric else cell.ljust(width)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return cell == "-"
    return True
