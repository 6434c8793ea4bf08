"""Draws docs/measuring.svg: which step of SGLD is best, by effective draws and by the kernel Stein discrepancy.

The mixture of Welling and Teh (2011), with 100 events in minibatches of 5, as in Gorham and Mackey (2015).
python docs/measuring.py > docs/measuring.svg; python docs/measuring.py table prints the table of docs/measuring.md.
"""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np

from streaminfer.measuring import diagnostics, whitening
from streaminfer.measuring.stein import graph, kernel
from streaminfer.measuring.whitening import Whitening

STEPS = [0.0005, 0.0015, 0.005, 0.015, 0.05]
SHOWN = [0.0005, 0.005, 0.05]
EVENTS, MINIBATCH, CHAINS, DRAWS, WARM_UP, EVERY = 100, 5, 12, 4000, 200, 20
WIDTH, HEIGHT, SIDE, LEFT, TOP = 760, 232, 150, 46, 30
COLOURS = {"effective draws (most: {:.0f})": "#06c", "kernel Stein (least: {:.2f})": "#c30"}


def events() -> np.ndarray:
    """Half of them around 0, half around 1, of variance 2."""
    rng = np.random.default_rng(1)
    return np.where(rng.random(EVENTS) < 0.5, 0.0, 1.0) + np.sqrt(2) * rng.standard_normal(EVENTS)


def score(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of theta (..., 2): x ~ N(theta_1, 2) or N(theta_1 + theta_2, 2), priors N(0, 10) and N(0, 1)."""
    first, second = rows - theta[..., :1], rows - theta.sum(axis=-1, keepdims=True)
    share = 1 / (1 + np.exp((second**2 - first**2) / 4))
    to_both, to_second = ((1 - share) * first + share * second) / 2, share * second / 2
    scale = EVENTS / len(rows)
    return scale * np.stack([to_both.sum(axis=-1), to_second.sum(axis=-1)], axis=-1) - theta / [10.0, 1.0]


@lru_cache
def posterior() -> Whitening:
    """Its mean and covariance, on a grid."""
    x = events()
    cells = np.stack(np.meshgrid(np.linspace(-2, 3, 150), np.linspace(-4, 4, 150), indexing="ij"), -1).reshape(-1, 2)
    logs = -(cells**2) @ [0.05, 0.5]
    for each in x:
        logs += np.logaddexp(-((each - cells[:, 0]) ** 2) / 4, -((each - cells.sum(axis=1)) ** 2) / 4)
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    around = cells - mass @ cells
    return whitening.of_moments(mass @ cells, (mass[:, None] * around).T @ around)


@lru_cache
def chains() -> np.ndarray:
    """(draws, steps, chains, 2): all steps have the same noise and minibatches."""
    rng, x, step = np.random.default_rng(2), events(), np.array(STEPS)[:, None, None]
    theta, found = np.zeros((len(STEPS), CHAINS, 2)), []
    for _ in range(WARM_UP + DRAWS):
        noise, rows = rng.standard_normal((CHAINS, 2)), x[rng.integers(0, EVENTS, MINIBATCH)]
        theta = theta + step / 2 * score(theta, rows) + np.sqrt(step) * noise
        found.append(theta)
    return np.array(found[WARM_UP:])


@lru_cache
def measured() -> tuple[list[float], list[float]]:
    """Of each step: the effective draws of a chain, and how far its draws are, both in the mean over chains."""
    worth, away = [], []
    for i in range(len(STEPS)):
        draws = chains()[:, i]
        bulk = diagnostics.measure(draws.reshape(1, DRAWS, -1)).bulk.reshape(CHAINS, 2)
        worth.append(float(bulk.min(axis=1).mean()))
        thinned = [draws[::EVERY, j] for j in range(CHAINS)]
        squares = [kernel.measure(t, score(t, events()), place=posterior()).u for t in thinned]
        away.append(float(np.sqrt(np.mean(squares) / kernel.kappa(2))))
    return worth, away


def curves() -> list[str]:
    """Both against the step, each on its own scale, with a ring at the step that it would choose."""
    worth, away = measured()
    at = [LEFT + i * SIDE / (len(STEPS) - 1) for i in range(len(STEPS))]
    drawn = [f'<path d="M{LEFT} {TOP}V{TOP + SIDE}H{LEFT + SIDE}" fill="none" stroke="#444"/>']
    chosen = [worth.index(max(worth)), away.index(min(away))]
    for line, (values, best, (name, colour)) in enumerate(zip((worth, away), chosen, COLOURS.items(), strict=True)):
        heights = [TOP + SIDE * (1 - value / max(values)) for value in values]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(at, heights, strict=True))
        drawn += [
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<circle cx="{at[best]:.1f}" cy="{heights[best]:.1f}" r="6" fill="none" stroke="{colour}"/>',
            f'<text x="{LEFT}" y="{HEIGHT - 24 + 16 * line}" fill="{colour}">{name.format(values[best])}</text>',
        ]
    for x, step in zip(at[::2], STEPS[::2], strict=True):
        drawn.append(f'<text x="{x:.1f}" y="{TOP + SIDE + 16}" text-anchor="middle">{step:g}</text>')
    return drawn


def panel(column: int, step: float) -> list[str]:
    """Draws of three chains with one step, and the ellipse of two posterior deviations."""
    left = LEFT + 28 + column * (SIDE + 20)
    scale = SIDE / 8

    def place(theta: np.ndarray) -> list[str]:
        inside = np.clip(theta, [-3.4, -3.9], [4.4, 3.9])
        return [f"{left + (a + 3.5) * scale:.1f} {TOP + SIDE / 2 - b * scale:.1f}" for a, b in inside]

    turns = np.linspace(0, 2 * np.pi, 40)
    ellipse = posterior().theta(2 * np.stack([np.cos(turns), np.sin(turns)], axis=1))
    draws = chains()[::40, STEPS.index(step), :3].reshape(-1, 2)
    return [
        f'<rect x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#444"/>',
        f'<path d="{"".join(f"M{each}h0" for each in place(draws))}" stroke="#06c" stroke-width="2.4" '
        'stroke-linecap="round" stroke-opacity="0.5"/>',
        f'<path d="M{"L".join(place(ellipse))}" fill="none" stroke="#c30" stroke-width="1.5"/>',
        f'<text x="{left + SIDE / 2:.1f}" y="{TOP - 10}" text-anchor="middle">step {step:g}</text>',
    ]


def drawing() -> str:
    """The whole SVG."""
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="steps of SGLD by effective draws and by kernel Stein discrepancy">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *curves(),
    ]
    for column, step in enumerate(SHOWN, start=1):
        drawn += panel(column, step)
    return "\n".join([*drawn, "</svg>"])


def table() -> str:
    """With the graph Stein discrepancy of 200 draws of a chain, and its bound, in the mean over chains."""
    lines = ["| step | effective draws | kernel Stein | graph Stein (its bound) |", "|---|---|---|---|"]
    for i, (step, worth, away) in enumerate(zip(STEPS, *measured(), strict=True)):
        thinned = [chains()[::EVERY, i, j] for j in range(CHAINS)]
        found = [graph.measure(posterior().points(t), posterior().scores(score(t, events()))) for t in thinned]
        value, bound = (np.mean([getattr(each, name) for each in found]) for name in ("value", "bound"))
        lines.append(f"| {step:g} | {worth:.0f} | {away:.2f} | {value:.2f} ({bound:.1f}) |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table() if sys.argv[1:] == ["table"] else drawing())
