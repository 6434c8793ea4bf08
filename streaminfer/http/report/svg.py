"""Draws a figure as SVG. Colours come from the page around it, so that it suits light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from streaminfer.http.report.figures import Figure, Numbers

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 240, 70, 12, 12, 40
TICKS: Final = 5
SPANS: Final = (2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 43_200.0)
"""Seconds between two ticks of a clock."""
STYLE: Final = (
    ".rule{stroke:#ddd}.line{stroke:#1f5fa8;stroke-width:2;fill:none}.dashed{stroke-dasharray:6 4;stroke:#888}"
    ".point{fill:#1f5fa8}.band{fill:#1f5fa8;opacity:.2}line.mark{stroke:#b3261e;stroke-dasharray:4 4}"
)
"""Of a file of its own, on white."""


class Frame(NamedTuple):
    """Where numbers are in the picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)


def drawn(figure: Figure) -> str:
    """One element `svg`; a figure without numbers says so."""
    heights = figure.heights
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(figure.name, quote=True)}">'
    if not heights or not figure.x:
        return f'{head}<text x="{LEFT}" y="{HEIGHT // 2}">no numbers yet</text></svg>'
    frame = Frame(_room(min(figure.x), max(figure.x), figure.is_time), _room(min(heights), max(heights)))
    parts = [head, *_axes(figure, frame)]
    if figure.band is not None:
        parts.append(_band(figure, frame))
    parts += [_line(figure.x, line.values, frame, line.dashed) for line in figure.lines]
    for mark in figure.marks:
        x, _ = frame.at(mark.x, frame.y[0])
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text class="mark" x="{x + 3:.1f}" y="{TOP + 10}">{escape(mark.text)}</text>')
    return "".join((*parts, "</svg>"))


def sheet(title: str, figures: Sequence[Figure], columns: int = 2) -> str:
    """A file of its own with several figures, in rows."""
    rows = -(-len(figures) // columns)
    tall = HEIGHT + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * columns} {tall * rows + 30}" '
        f'width="{WIDTH * columns}" font-family="sans-serif" font-size="11"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/><text x="10" y="20" font-size="15">{escape(title)}</text>'
    ]
    for i, figure in enumerate(figures):
        x, y = WIDTH * (i % columns), 30 + tall * (i // columns)
        one = drawn(figure).replace("<svg ", f'<svg y="16" width="{WIDTH}" height="{HEIGHT}" ', 1)
        parts.append(
            f'<svg x="{x}" y="{y}"><text x="{LEFT}" y="12" font-size="13">{escape(figure.name)}</text>{one}</svg>'
        )
    return "".join((*parts, "</svg>\n"))


def _room(low: float, high: float, is_time: bool = False) -> tuple[float, float]:
    """A little more than all, and something around a single number: half a minute if it is a time."""
    alone = 30.0 if is_time else max(0.05 * abs(low), 1e-12)
    room = 0.05 * (high - low) if high > low else alone
    return low - room, high + room


def ticks(low: float, high: float, count: int = TICKS, is_time: bool = False) -> list[float]:
    """Round numbers between two others."""
    raw = (high - low) / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = size * next(each for each in (1, 2, 5, 10) if each * size >= raw)
    if is_time and raw > 1:
        step = next((each for each in SPANS if each >= raw), 86_400.0 * math.ceil(raw / 86_400))
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def _axes(figure: Figure, frame: Frame) -> list[str]:
    parts = []
    for value in ticks(*frame.y):
        _, y = frame.at(frame.x[0], value)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.6g}</text>')
    said: Callable[[float], str] = _clock(frame.x) if figure.is_time else lambda value: f"{value:.6g}"
    for value in ticks(*frame.x, count=4, is_time=figure.is_time):
        x, _ = frame.at(value, frame.y[0])
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{said(value)}</text>'
        )
    label = figure.x_label or ("time (UTC)" if figure.is_time else "")
    parts.append(f'<text class="tick" x="{WIDTH // 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(label)}</text>')
    return parts


def _clock(span: tuple[float, float]) -> Callable[[float], str]:
    form = "%H:%M:%S" if span[1] - span[0] < 86_400 else "%m-%d %H:%M"
    return lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime(form)


def _runs(xs: Sequence[float], ys: Numbers, frame: Frame) -> list[list[tuple[float, float]]]:
    """Points of the picture, divided where nothing is known."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if y is None:
            found.append([])
        else:
            found[-1].append(frame.at(x, y))
    return [run for run in found if run]


def _line(xs: Sequence[float], ys: Numbers, frame: Frame, dashed: bool) -> str:
    kind = "line dashed" if dashed else "line"
    parts = []
    for run in _runs(xs, ys, frame):
        if len(run) == 1:
            parts.append(f'<circle class="point" cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="3"/>')
        else:
            parts.append(f'<polyline class="{kind}" points="{_points(run)}"/>')
    return "".join(parts)


def _band(figure: Figure, frame: Frame) -> str:
    lower, upper = figure.band or ((), ())
    known = [(x, a, b) for x, a, b in zip(figure.x, lower, upper, strict=True) if a is not None and b is not None]
    if len(known) == 1:  # a band without a width would not be seen
        (x, low), (_, high) = frame.at(known[0][0], known[0][1]), frame.at(known[0][0], known[0][2])
        return f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
    around = [frame.at(x, b) for x, _, b in known] + [frame.at(x, a) for x, a, _ in reversed(known)]
    return f'<polygon class="band" points="{_points(around)}"/>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
