"""Draws docs/error_pictures.svg: the parts of a chain's error against compute, for exact MH and for SGLD.

python docs/error_pictures.py > docs/error_pictures.svg; python docs/error_pictures.py table prints the table of
docs/measuring-evidence.md.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from streaminfer.measuring import error_pictures as pictures

N, BATCH, RUNS = 1000, 20, 400
"""Events, events of a minibatch, and runs that all start at the same place."""
START, WIDTH_OF_STEPS, STEP = 8.0, 1.5, 0.02
"""In posterior deviations: the start, the proposals of MH, and the step of SGLD."""
SPENT = 200_000
"""Events looked at by each run."""
WIDTH, HEIGHT, PANEL, TALL, LEFT, TOP = 780, 500, 200, 160, 56, 34
LOW, HIGH, FIRST = 1e-3, 100.0, 1000.0
CURVES = [("#06c", "transient bias"), ("#c60", "Monte-Carlo error"), ("#888", "asymptotic bias"), ("#111", "total")]
NAMES = {"all": "mean of all draws", "last_half": "mean of the last half", "last_draw": "last draw"}
LEVELS = [0.05, 0.5, 0.95]


def exact() -> np.ndarray:
    """Metropolis–Hastings on N(0, 1), which looks at all events for each draw: squares of draws (runs, draws)."""
    rng, x, found = np.random.default_rng(1), np.full(RUNS, START), []
    for _ in range(SPENT // N):
        ahead = x + WIDTH_OF_STEPS * rng.standard_normal(RUNS)
        x = np.where(np.log(rng.random(RUNS)) < 0.5 * (x * x - ahead * ahead), ahead, x)
        found.append(x)
    return np.stack(found, axis=1)


def sgld() -> np.ndarray:
    """SGLD on the same target, with the noise of minibatches of a known variance: N/B - 1 in posterior units."""
    rng, x, found = np.random.default_rng(2), np.full(RUNS, START), []
    noise = math.sqrt(N / BATCH - 1)
    for _ in range(SPENT // BATCH):
        gradient = x + noise * rng.standard_normal(RUNS)
        x = x - 0.5 * STEP * gradient + math.sqrt(STEP) * rng.standard_normal(RUNS)
        found.append(x)
    return np.stack(found, axis=1)


def place(value: float, low: float, high: float, size: float) -> float:
    share = math.log(min(max(value, low), high) / low) / math.log(high / low)
    return share * size


def axes(left: float, top: float, title: str, ticks: list[tuple[float, str]]) -> list[str]:
    drawn = [
        f'<path d="M{left} {top}V{top + TALL}H{left + PANEL}" fill="none" stroke="#444"/>',
        f'<text x="{left + PANEL / 2:.1f}" y="{top - 8}" text-anchor="middle">{title}</text>',
    ]
    for spent in (1e3, 1e4, 1e5):
        x = left + place(spent, FIRST, SPENT, PANEL)
        drawn.append(f'<text x="{x:.1f}" y="{top + TALL + 16}" text-anchor="middle">{spent:,.0f}</text>')
    return drawn + [f'<text x="{left - 5}" y="{top + y + 4:.1f}" text-anchor="end">{text}</text>' for y, text in ticks]


def panel(values: np.ndarray, cost: int, estimator: pictures.Estimator, column: int, row: int) -> list[str]:
    """Errors of the variance, whose true value is 1."""
    left, top = LEFT + column * (PANEL + 44), TOP + row * (TALL + 56)
    squares = values**2
    stationary = 1.0 if row == 0 else (1 + STEP * (N / BATCH - 1) / 4) / (1 - STEP / 4)
    first = max(1, int(FIRST / cost))
    after = np.unique(np.geomspace(first, values.shape[1], 40).astype(np.intp))
    found = pictures.errors(squares, 1.0, after, cost, estimator, stationary)
    ticks = [(TALL - place(v, LOW, HIGH, TALL), f"{v:g}") for v in (0.001, 0.01, 0.1, 1, 10, 100)]
    drawn = axes(left, top, f"{'exact MH' if row == 0 else 'SGLD'}: {NAMES[estimator]}", ticks)
    curves = found.curves
    for i, (colour, _) in enumerate(CURVES, start=1):
        if curves[:, i].any():
            points = "L".join(
                f"{left + place(x, FIRST, SPENT, PANEL):.1f} {top + TALL - place(y, LOW, HIGH, TALL):.1f}"
                for x, y in curves[:, [0, i]]
            )
            drawn.append(f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return drawn


def drawing() -> str:
    """The whole SVG."""
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="errors of exact and subsampled chains against compute">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for row, (values, cost) in enumerate(((exact(), N), (sgld(), BATCH))):
        for column, estimator in enumerate(pictures.ESTIMATORS):
            drawn += panel(values, cost, estimator, column, row)
    drawn.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 32}" text-anchor="middle">events looked at</text>')
    for i, (colour, text) in enumerate(CURVES):
        drawn.append(f'<text x="{LEFT + 180 * i}" y="{HEIGHT - 10}" fill="{colour}">{text}</text>')
    return "\n".join([*drawn, "</svg>"])


def table() -> str:
    """The marginals panel: quantiles of the last draw over runs, beside those of the target."""
    target = np.random.default_rng(3).standard_normal(100_000)
    lines = [
        "| events looked at | "
        + " | ".join(f"{name}, {level:.0%}" for name in ("MH", "SGLD") for level in LEVELS)
        + " |"
    ]
    lines.append("|---" * (1 + 2 * len(LEVELS)) + "|")
    spent = np.array([1000, 5000, 20_000, SPENT])
    rows = [
        pictures.marginals(values, spent // cost, target, LEVELS) for values, cost in ((exact(), N), (sgld(), BATCH))
    ]
    for i, each in enumerate(spent):
        cells = [f"{round(value, 2) + 0.0:.2f}" for row in rows for value in row.quantiles[i]]
        lines.append(f"| {each:,} | {' | '.join(cells)} |")
    exactly = [f"{round(value, 2) + 0.0:.2f}" for value in rows[0].target] * 2
    return "\n".join([*lines, f"| the target | {' | '.join(exactly)} |"])


if __name__ == "__main__":
    print(table() if sys.argv[1:] == ["table"] else drawing())
