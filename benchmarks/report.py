"""Figures as one table and as one JSON document, and two documents compared."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import Aim, Figure

VERSION: Final = 1
HEADER: Final = ("case", "figure", "unit", "median", "spread", "aim", "met")


class BadResults(Exception):
    """A file that is not a document of results."""


def table(figures: Sequence[Figure], titles: Mapping[str, str]) -> str:
    """One line a figure, with a line above for each case."""
    lines: list[tuple[str, ...] | str] = [HEADER]
    before = ""
    for figure in figures:
        if figure.case != before:
            lines.append(f"{figure.case}  {titles[figure.case]}")
            before = figure.case
        low, high = figure.spread
        aim = "" if figure.aim is None else f"{figure.aim.kind} {number(figure.aim.value)}"
        met = {True: "yes", False: "NO", None: ""}[figure.met]
        spread = f"{number(low)} .. {number(high)}"
        lines.append((figure.case, figure.name, figure.unit, number(figure.median), spread, aim, met))
    return aligned(lines, right=(3, 4))


def aligned(lines: Sequence[tuple[str, ...] | str], right: Sequence[int] = ()) -> str:
    """Columns as wide as they must be; a line that is one text stands as it is."""
    rows = [line for line in lines if not isinstance(line, str)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    made = []
    for line in lines:
        if isinstance(line, str):
            made.append(line)
            continue
        cells = [
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        made.append("  ".join(cells).rstrip())
    return "\n".join(made)


def number(value: float) -> str:
    """Three digits that count, thousands with commas."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def document(
    figures: Sequence[Figure], titles: Mapping[str, str], commit: str, about: Mapping[str, Any]
) -> dict[str, Any]:
    """All that was measured, and where."""
    return {
        "version": VERSION,
        "commit": commit,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        **about,
        "titles": dict(titles),
        "figures": [{**asdict(figure), "median": figure.median} for figure in figures],
    }


def read(path: Path) -> dict[str, Any]:
    """A document of results; raises BadResults."""
    try:
        found = json.loads(path.read_text())
        if found["version"] != VERSION:
            raise BadResults(f"{path}: version {found['version']} of results, this program reads {VERSION}")
        figures_of(found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadResults(f"{path}: is not a document of results ({type(error).__name__}: {error})") from error
    return dict(found)


def figures_of(found: Mapping[str, Any]) -> list[Figure]:
    """The figures of a document."""
    return [
        Figure(f["case"], f["name"], f["unit"], tuple(f["samples"]), None if f["aim"] is None else Aim(**f["aim"]))
        for f in found["figures"]
    ]


def comparison(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Each figure of both documents: the medians, the change, and whether the spreads are apart."""
    before = {(f.case, f.name): f for f in figures_of(old)}
    lines: list[tuple[str, ...] | str] = [("case", "figure", "unit", old["commit"], new["commit"], "change", "")]
    for figure in figures_of(new):
        was = before.get((figure.case, figure.name))
        if was is None:
            continue
        change = f"{100 * (figure.median / was.median - 1):+.1f} %"
        lines.append(
            (
                figure.case,
                figure.name,
                figure.unit,
                number(was.median),
                number(figure.median),
                change,
                _judged(was, figure),
            )
        )
    if old.get("quick") != new.get("quick"):
        lines.append("one is a quick run and the other is not: figures that grow with the work differ by that alone")
    return aligned(lines, right=(3, 4, 5))


def _judged(old: Figure, new: Figure) -> str:
    """Spreads that overlap say nothing."""
    (low, high), (low_now, high_now) = old.spread, new.spread
    return "within the spread" if low_now <= high and low <= high_now else ""
