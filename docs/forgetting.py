"""Draws docs/forgetting.svg: the posterior of a rate that jumps, with and without forgetting.

python docs/forgetting.py > docs/forgetting.svg
"""

from __future__ import annotations

import numpy as np

from streaminfer import fit, parse_spec

EVENTS, JUMP, STEP = 1000, 500, 20
WIDTH, HEIGHT, LEFT, TOP = 760, 250, 50, 20
TRUTH = np.where(np.arange(EVENTS) < JUMP, 0.2, 0.5)
CURVES = [("#888", "all events alike", None), ("#06c", "half_life_events: 60", {"half_life_events": 60})]


def at(event: float, rate: float) -> str:
    """A point of the drawing."""
    return f"{LEFT + event / EVENTS * (WIDTH - LEFT - 20):.1f} {TOP + (0.7 - rate) / 0.7 * (HEIGHT - TOP - 40):.1f}"


def curve(colour: str, forget: dict[str, float] | None, rows: list[dict[str, int]]) -> str:
    """The posterior mean as a line in a band of two standard deviations, after every few events."""
    spec = {"name": "clicks", "model": {"kind": "bernoulli", "field": "click"}, "inference": {"forget": forget}}
    counts = range(STEP, EVENTS + 1, STEP)
    found = [fit(parse_spec(spec), rows[:n]) for n in counts]
    mean, sd = np.array([(f.mean["p"], f.sd["p"]) for f in found]).T
    line = "L".join(map(at, counts, mean))
    band = "L".join([*map(at, counts, mean + 2 * sd), *map(at, reversed(counts), (mean - 2 * sd)[::-1])])
    return (
        f'<path d="M{band}Z" fill="{colour}" fill-opacity="0.15"/>\n'
        f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    )


def drawing() -> str:
    """The whole SVG."""
    clicked = np.random.default_rng(1).random(EVENTS) < TRUTH
    rows = [{"click": int(click)} for click in clicked]
    truth = "L".join([at(0, 0.2), at(JUMP, 0.2), at(JUMP, 0.5), at(EVENTS, 0.5)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13" role="img" aria-label="posterior mean of a rate that jumps, with and without forgetting">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<path d="M{at(0, 0.7)}L{at(0, 0)}L{at(EVENTS, 0)}" fill="none" stroke="#444"/>',
        *(
            f'<text x="{LEFT - 8}" y="{at(0, r).split()[1]}" dy="4" text-anchor="end">{r}</text>'
            for r in (0.0, 0.2, 0.5)
        ),
        *(
            f'<text x="{at(n, 0).split()[0]}" y="{HEIGHT - 22}" text-anchor="middle">{n}</text>'
            for n in range(0, EVENTS + 1, 250)
        ),
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 5}" text-anchor="middle">events</text>',
        *(curve(colour, forget, rows) for colour, _, forget in CURVES),
        f'<path d="M{truth}" fill="none" stroke="#c30" stroke-dasharray="5 4"/>',
    ]
    labels = [*((colour, text) for colour, text, _ in CURVES), ("#c30", "the truth")]
    parts += [
        f'<text x="70" y="{40 + 18 * i}" fill="{colour}">{text}</text>' for i, (colour, text) in enumerate(labels)
    ]
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(drawing())
