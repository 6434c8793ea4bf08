"""What commands share: the spec, the bus, JSON lines and tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from streaminfer.bus.connect import default_url

ABOUT = "mean ± sd: ± is one standard deviation of the posterior"
"""What commands mean by ±."""


class UsageError(ValueError):
    """Arguments that are right one by one but not together."""


def add_spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="the spec, a YAML file")


def add_bus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bus",
        metavar="URL",
        default=default_url(),
        help="the bus (default: STREAMINFER_BUS, else embedded:./.streaminfer; here: %(default)s)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document a line, and nothing else")


def whole(low: int, high: int) -> Callable[[str], int]:
    """An argument that is a whole number between two bounds."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"must be a whole number from {low} to {high} (got {text!r})")
        return int(text)

    return parse


def print_json(document: Any) -> None:
    """One document on one line of standard output, at once."""
    print(json.dumps(document, ensure_ascii=False, allow_nan=False), flush=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they must be; columns of numbers to the right."""
    columns = list(zip(header, *rows, strict=True))
    aligned = [_aligned(column) for column in columns]
    for cells in zip(*aligned, strict=True):
        print("  ".join(cells).rstrip())
    sys.stdout.flush()


def _aligned(column: Sequence[str]) -> list[str]:
    width = max(map(len, column))
    numeric = all(_is_number(cell) for cell in column[1:])
    return [cell.rjust(width) if numeric else cell.ljust(width) for cell in column]


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return cell == "-"
    return True
