"""Draws docs/combiners.svg: how far combined draws are from the posterior, by subposteriors, events and split.

python docs/combiners.py > docs/combiners.svg; python docs/combiners.py table prints the table of docs/combiners.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from streaminfer import combine

DRAWS, EVENTS, PARTS = 1000, 8000, 8
COUNTS, SIZES = [2, 4, 8, 16], [500, 2000, 8000, 32_000]
WIDTH, HEIGHT, PANEL, TALL, LEFT, TOP = 760, 470, 205, 160, 50, 30
LOW, HIGH = 0.01, 10.0
CURVES = [
    ("#06c", "average", "average"),
    ("#888", "average:equal", "average, equal weights"),
    ("#c60", "kde", "kde"),
    ("#393", "semiparametric", "semiparametric"),
    ("#c30", "corrected", "average, corrected"),
]
NAMES = ["average", "average:diagonal", "average:equal", "gaussian", "kde", "semiparametric", "variational",
         "weierstrass", "weierstrass_rejection", "weierstrass_importance", "normal", "resampling"]  # fmt: skip


class Target(NamedTuple):
    """Events and the log likelihood (n,) of parameters (n, d) by the sums of events; its gradient (n, d)."""

    spread: float
    """The deviation of the prior, N(0, spread^2)."""
    rows: Callable[[int], np.ndarray]
    """n events; the first column is their key."""
    sums: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    likelihood: Callable[..., np.ndarray]
    gradient: Callable[..., np.ndarray]
    d: int


LEVELS = np.linspace(-2.0, 2.0, 9)


def noise(n: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """A feature of n events, and their keys, which go with it but not strictly."""
    rng = np.random.default_rng(3)
    a = rng.choice(LEVELS, n)
    return rng, a, a + rng.standard_normal(n)


def regression(n: int) -> np.ndarray:
    """A number that depends on a feature; by key, some subposteriors have seen mostly low values of it."""
    rng, a, key = noise(n)
    return np.stack([key, a, 1 + 0.5 * a + rng.standard_normal(n)], axis=1)


def regression_sums(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    x = np.stack([np.ones(len(rows)), rows[:, 1]], axis=1)
    return x.T @ x, x.T @ rows[:, 2]


def clicks(n: int) -> np.ndarray:
    """A 0/1 target that is rarely 1, and depends on a feature."""
    rng, a, key = noise(n)
    return np.stack([key, a, rng.random(n) < 1 / (1 + np.exp(4 - a))], axis=1)


def clicks_sums(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    at = rows[:, 1][:, None] == LEVELS
    return at.sum(axis=0), rows[:, 2] @ at


def odds(theta: np.ndarray) -> np.ndarray:
    return theta[:, :1] + theta[:, 1:] * LEVELS


def missed(theta: np.ndarray, n: np.ndarray, ones: np.ndarray) -> np.ndarray:
    return ones - n / (1 + np.exp(-odds(theta)))


def squares(n: int) -> np.ndarray:
    """y = theta^2 + noise: the sign of theta is not known. By key, subposteriors have seen different means of y."""
    rng, a, key = noise(n)
    return np.stack([key, a, 1 + 0.5 * a + 25 * rng.standard_normal(n)], axis=1)


TARGETS = {
    "Gaussian": Target(
        10.0, regression, regression_sums, lambda t, g, h: t @ h - ((t @ g) * t).sum(axis=1) / 2,
        lambda t, g, h: h - t @ g, 2,
    ),
    "skewed": Target(
        10.0, clicks, clicks_sums, lambda t, n, ones: odds(t) @ ones - np.logaddexp(0, odds(t)) @ n,
        lambda t, n, ones: np.stack([missed(t, n, ones).sum(axis=1), missed(t, n, ones) @ LEVELS], axis=1), 2,
    ),
    "bimodal": Target(
        2.0, squares, lambda rows: (np.array(len(rows)), rows[:, 2].sum()),
        lambda t, n, total: (t[:, 0] ** 2 * total - n * t[:, 0] ** 4 / 2) / 25**2,
        lambda t, n, total: 2 * (t * total - n * t**3) / 25**2, 1,
    ),
}  # fmt: skip


class Grid(NamedTuple):
    """Cells (m, d) of a density, their probabilities, and how wide they are (d,)."""

    cells: np.ndarray
    mass: np.ndarray
    step: np.ndarray

    def draws(self, n: int, rng: np.random.Generator) -> np.ndarray:
        chosen = rng.choice(len(self.mass), n, p=self.mass)
        return self.cells[chosen] + (rng.random((n, self.cells.shape[1])) - 0.5) * self.step


def density(target: Target, rows: np.ndarray, power: float) -> Callable[[np.ndarray], np.ndarray]:
    """prior^power times the likelihood of rows, as a log."""
    sums = target.sums(rows)
    return lambda t: target.likelihood(t, *sums) - power * (t**2).sum(axis=1) / (2 * target.spread**2)


def gridded(log_density: Callable[[np.ndarray], np.ndarray], d: int, reach: float) -> Grid:
    """Looks closer and closer to where the mass is."""
    low, high = np.full(d, -reach), np.full(d, reach)
    for size in [60] * 5 + [200 if d > 1 else 4000]:
        axes = [np.linspace(a, b, size) for a, b in zip(low, high, strict=True)]
        cells = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
        logs = log_density(cells)
        inside = cells[logs > logs.max() - 16]
        step = np.array([each[1] - each[0] for each in axes])
        low, high = inside.min(axis=0) - 3 * step, inside.max(axis=0) + 3 * step
    mass = np.exp(logs - logs.max())
    return Grid(cells, mass / mass.sum(), step)


def distance(draws: np.ndarray, exact: Grid) -> float:
    """By how much probability must be moved on average, in posterior deviations; of the parameter with the most."""
    found, places = [], (np.arange(len(draws)) + 0.5) / len(draws)
    for i in range(draws.shape[1]):
        values, where = np.unique(exact.cells[:, i], return_inverse=True)
        mass = np.bincount(where, exact.mass)
        mean = mass @ values
        quantiles = np.interp(places, np.cumsum(mass) - mass / 2, values)
        found.append(np.abs(np.sort(draws[:, i]) - quantiles).mean() / np.sqrt(mass @ (values - mean) ** 2))
    return float(max(found))


class Case(NamedTuple):
    """A target, its events, and how they are split."""

    kind: str
    n: int
    j: int
    by_key: bool


@lru_cache
def parts_of(case: Case) -> tuple[list[np.ndarray], Grid]:
    """Independent draws of each subposterior, and the posterior."""
    target, rng = TARGETS[case.kind], np.random.default_rng(4)
    rows = target.rows(case.n)
    rows = rows[np.argsort(rows[:, 0], kind="stable")] if case.by_key else rows
    shares = np.array_split(rows, case.j) if case.by_key else [rows[i :: case.j] for i in range(case.j)]
    reach = 8 * target.spread * case.j**0.5
    grids = [gridded(density(target, share, 1 / case.j), target.d, reach) for share in shares]
    return [grid.draws(DRAWS, rng) for grid in grids], gridded(density(target, rows, 1.0), target.d, reach)


def error(case: Case, name: str, corrected: bool = False) -> tuple[float, float]:
    """The distance from the posterior, and k-hat; NaN for k-hat without a correction."""
    target, (parts, exact) = TARGETS[case.kind], parts_of(case)
    rows, (by, _, weights) = target.rows(case.n), name.partition(":")
    sums = target.sums(rows)
    options = {"components": DRAWS, **({"weights": weights} if weights else {})}
    if by == "variational":
        options["gradient"] = lambda t: target.gradient(t, *sums) - t / target.spread**2
    log_density = density(target, rows, 1.0) if corrected else None
    found = combine(parts, by, log_density=log_density, n=DRAWS, effective_draws=[DRAWS] * case.j, **options)
    k_hat = np.nan if found.corrected is None else found.corrected.k_hat
    return distance(found.draws, exact), k_hat


@lru_cache
def of_curve(case: Case, curve: str) -> float:
    return error(case, "average", True)[0] if curve == "corrected" else error(case, curve)[0]


def height(value: float) -> float:
    share = (np.log10(min(max(value, LOW), HIGH)) - np.log10(LOW)) / np.log10(HIGH / LOW)
    return float((1 - share) * TALL)


def panel(kind: str, column: int, row: int) -> list[str]:
    """Error against subposteriors (above) or events (below): whole lines round robin, broken ones by key."""
    left, top = LEFT + column * (PANEL + 32), TOP + row * (TALL + 50)
    ticks = COUNTS if row == 0 else SIZES
    at = [i * PANEL / (len(ticks) - 1) for i in range(len(ticks))]
    drawn = [
        f'<path d="M{left} {top}V{top + TALL}H{left + PANEL}" fill="none" stroke="#444"/>',
        *(
            f'<text x="{left - 5}" y="{top + height(v) + 4:.1f}" text-anchor="end">{v:g}</text>'
            for v in (0.01, 0.1, 1.0, 10.0)
        ),
        *(
            f'<text x="{left + x:.1f}" y="{top + TALL + 16}" text-anchor="middle">{tick:,}</text>'
            for x, tick in zip(at, ticks, strict=True)
        ),
    ]
    if row == 0:
        drawn.append(f'<text x="{left + PANEL / 2:.1f}" y="{top - 10}" text-anchor="middle">{kind}</text>')
    what = f"subposteriors, of {EVENTS:,} events" if row == 0 else f"events, in {PARTS} subposteriors"
    drawn.append(f'<text x="{left + PANEL / 2:.1f}" y="{top + TALL + 32}" text-anchor="middle">{what}</text>')
    for colour, curve, _ in CURVES:
        for by_key in (False, True):
            cases = [Case(kind, *((EVENTS, tick) if row == 0 else (tick, PARTS)), by_key) for tick in ticks]
            points = "L".join(
                f"{left + x:.1f} {top + height(of_curve(case, curve)):.1f}" for x, case in zip(at, cases, strict=True)
            )
            dashes = ' stroke-dasharray="5 4"' if by_key else ""
            drawn.append(f'<path d="M{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
    return drawn


def drawing() -> str:
    """The whole SVG."""
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="distance of combined draws from the posterior">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for column, kind in enumerate(TARGETS):
        drawn += panel(kind, column, 0) + panel(kind, column, 1)
    for i, (colour, _, text) in enumerate(CURVES):
        drawn.append(f'<text x="{LEFT + 145 * i - 30}" y="{HEIGHT - 10}" fill="{colour}">{text}</text>')
    return "\n".join([*drawn, "</svg>"])


def table() -> str:
    """Distances of all combiners, and what their corrections make of them, with k-hat."""
    kinds = [(kind, by_key) for kind in TARGETS for by_key in (False, True)]
    named = " | ".join(f"{kind}, {'by key' if by_key else 'round robin'}" for kind, by_key in kinds)
    itself = [parts_of(Case(kind, EVENTS, PARTS, by_key))[1] for kind, by_key in kinds]
    noises = [f"{distance(exact.draws(DRAWS, np.random.default_rng(5)), exact):.2f}" for exact in itself]
    lines = [
        f"| combiner | {named} |",
        "|---" * (len(kinds) + 1) + "|",
        f"| the posterior itself | {' | '.join(noises)} |",
    ]
    for name in NAMES:
        cells = []
        for kind, by_key in kinds:
            case = Case(kind, EVENTS, PARTS, by_key)
            (plain, _), (best, k_hat) = error(case, name), error(case, name, True)
            cells.append(f"{plain:.2f} → {best:.2f} ({k_hat:.1f})" if k_hat <= 0.7 else f"{plain:.2f} ({k_hat:.1f})")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table() if sys.argv[1:] == ["table"] else drawing())
