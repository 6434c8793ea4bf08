"""Draws docs/subsets.svg: which part of the events a step reads, by the distance of the chain from the mode.

python docs/subsets.py > docs/subsets.svg
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streaminfer.models.targets import mode, remainders
from streaminfer.models.targets.density import Density
from streaminfer.sampling.chains import firefly
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.kernels import flymc, poisson_mh, subsampled_mh
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import BoundRule, Stopping
from streaminfer.sampling.subsets.proxy import Proxy, plain, proxy
from streaminfer.spec import parse_spec

EVENTS, FEATURES, MINIBATCH, DECISIONS = 20_000, ["a", "b", "c", "d"], 256, 60
DISTANCES = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
WIDTH, HEIGHT, LEFT, TOP = 760, 300, 70, 20
LEAST = 1e-5
"""Of the axis of parts."""
Reads = Callable[[np.ndarray, np.ndarray, np.random.Generator], int]


class World(NamedTuple):
    """A logistic regression with the mode of its posterior, and the root of its Laplace covariance."""

    density: Density
    mode: np.ndarray
    root: np.ndarray

    def proxy(self, order: int, bounded: bool = True) -> Proxy:
        expanded = remainders.expansion(self.density, self.mode, order) if order else plain(self.density)
        return proxy(self.density, expanded, self.root, bounded)


def world() -> World:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((EVENTS, len(FEATURES)))
    labels = rng.random(EVENTS) < 1 / (1 + np.exp(-features @ [1.0, -0.5, 0.25, 0.1]))
    model = {"kind": "logistic_regression", "features": FEATURES, "target": "y", "intercept": False}
    target = parse_spec({"name": "reads", "model": model, "inference": {"method": "mh"}}).target
    density = Density(target, np.ascontiguousarray(target.rows(np.column_stack([features, labels]))))
    place = mode.find(density).theta
    return World(density, place, preconditioning.mode(density.curvature(place)).root)


def by_test(made: Proxy, rule: str) -> Reads:
    by = subsampled_mh.subsets(made, Stopping(rule), MINIBATCH)

    def reads(theta: np.ndarray, proposed: np.ndarray, rng: np.random.Generator) -> int:
        return subsampled_mh.decide(by, subsampled_mh.init(theta), proposed, math.log1p(-rng.random()), rng).n_read

    return reads


def by_poisson(made: Proxy) -> Reads:
    return lambda theta, proposed, rng: poisson_mh.decide(made, poisson_mh.init(theta), proposed, rng).n_read


def by_light(found: World, tune: str) -> Reads:
    """A step of flymc: what is bright at theta, drawn by its law, and the dark events that are offered their light."""
    rule = BoundRule(tune, 1.5 if tune == "none" else None, "implicit", None)
    numbers, _ = firefly.measured(found.density, rule, found.mode, found.root, Key(0, "steps"))
    bounds, fraction = firefly.restored(found.density, rule, found.mode, numbers), float(numbers[0])

    def reads(theta: np.ndarray, proposed: np.ndarray, rng: np.random.Generator) -> int:  # noqa: ARG001
        now = flymc.drawn(found.density, bounds, theta, rng)
        return len(now.indices) + flymc.implicit(found.density, bounds, theta, now, fraction, rng)[1]

    return reads


def part(found: World, reads: Reads, distance: float) -> float:
    """The mean over places at a distance, in posterior deviations, and over proposals from there."""
    rng, d, total = np.random.default_rng(2), len(FEATURES), 0
    for _ in range(DECISIONS):
        z = rng.standard_normal(d)
        theta = found.mode + found.root @ (distance * z / math.sqrt(z @ z))
        proposed = theta + 2.38 / math.sqrt(d) * (found.root @ rng.standard_normal(d))
        total += reads(theta, proposed, rng)
    return total / (DECISIONS * EVENTS)


def at(distance: float, share: float) -> str:
    """A point of the drawing, on logarithmic axes."""
    right = math.log(distance / DISTANCES[0]) / math.log(DISTANCES[-1] / DISTANCES[0])
    down = math.log(max(share, LEAST)) / math.log(LEAST)
    return f"{LEFT + right * (WIDTH - LEFT - 20):.1f} {TOP + down * (HEIGHT - TOP - 45):.1f}"


def drawing() -> str:
    """The whole SVG."""
    found = world()
    curves = [
        ("#888", "subsampled_mh, t, order 0", by_test(found.proxy(0, bounded=False), "t")),
        ("#c30", "subsampled_mh, bernstein_serfling, order 0", by_test(found.proxy(0), "bernstein_serfling")),
        ("#06c", "subsampled_mh, bernstein_serfling, order 2", by_test(found.proxy(2), "bernstein_serfling")),
        ("#393", "poisson_mh, order 2", by_poisson(found.proxy(2))),
        ("#e80", "flymc, untuned bounds", by_light(found, "none")),
        ("#088", "flymc, bounds tuned at the mode", by_light(found, "mode")),
        ("#a0a", "sgld, minibatch 256", lambda theta, proposed, rng: MINIBATCH),  # noqa: ARG005
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 136}" font-family="sans-serif" '
        'font-size="13" role="img" aria-label="part of the events that a step reads, by the distance from the '
        'mode">',
        f'<rect width="{WIDTH}" height="{HEIGHT + 136}" fill="#fff"/>',
        f'<path d="M{at(0.5, 1)}L{at(0.5, LEAST)}L{at(64, LEAST)}" fill="none" stroke="#444"/>',
        *(
            f'<text x="{LEFT - 8}" y="{at(1, s).split()[1]}" dy="4" text-anchor="end">{100 * s:g}%</text>'
            for s in (1.0, 0.1, 0.01, 0.001, 0.0001)
        ),
        *(f'<text x="{at(x, 1).split()[0]}" y="{HEIGHT - 25}" text-anchor="middle">{x:g}</text>' for x in DISTANCES),
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 6}" text-anchor="middle">distance from the mode, in deviations</text>',
    ]
    for i, (colour, name, reads) in enumerate(curves):
        line = "L".join(at(x, part(found, reads, x)) for x in DISTANCES)
        parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT}" y="{HEIGHT + 14 + 18 * i}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(drawing())
