"""Draws figures as PNG files, by Matplotlib (the extra `plots`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streaminfer.http.report.figures import Figure, Numbers


class NoMatplotlib(RuntimeError):
    """The extra is missing."""


def write(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """A file for each figure, named after it; raises NoMatplotlib."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for number, figure in enumerate(figures):
        name = re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-") or "figure"
        found.append(folder / f"{number:02}-{name}.png")
        write_one(figure, found[-1])
    return found


def write_one(figure: Figure, path: Path) -> None:
    """One figure as the kind of file that its name says: PNG, SVG or PDF."""
    sheet("", [figure], path, 1)


def sheet(title: str, figures: Sequence[Figure], path: Path, columns: int = 2) -> None:
    """Several figures in rows, as one file."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        text = "this needs Matplotlib: pip install '.[plots]' in a clone of streaminfer; SVG needs nothing"
        raise NoMatplotlib(text) from error
    rows = -(-len(figures) // columns)
    canvas = Canvas(figsize=(7 * columns, 3.2 * rows), layout="constrained")
    FigureCanvasAgg(canvas)
    canvas.suptitle(title)
    for place, figure in enumerate(figures):
        _draw(figure, canvas.add_subplot(rows, columns, place + 1))
    canvas.savefig(path, dpi=150)


def _draw(figure: Figure, axes: Any) -> None:
    xs: list[Any] = [datetime.fromtimestamp(x, UTC) for x in figure.x] if figure.is_time else list(figure.x)
    if figure.band is not None:
        axes.fill_between(xs, *(_floats(each) for each in figure.band), alpha=0.2)
    for line in figure.lines:
        style, marker = "--" if line.dashed else "-", "o" if len(xs) < 40 else ""
        axes.plot(xs, _floats(line.values), style, marker=marker, ms=3, label=line.label)
    for mark in figure.marks:
        axes.axvline(datetime.fromtimestamp(mark.x, UTC) if figure.is_time else mark.x, color="tab:red", ls=":")
    axes.set_title(figure.name)
    axes.set_xlabel(figure.x_label or ("time (UTC)" if figure.is_time else ""))
    if len(figure.lines) > 1:
        axes.legend()


def _floats(values: Numbers) -> list[float]:
    return [float("nan") if value is None else value for value in values]
