"""Draws docs/drift.svg: a rate that jumps, three posteriors of it, and the evidence that raises the alarm.

python docs/drift.py > docs/drift.svg
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaminfer import PosteriorSnapshot, fit, parse_spec

EVENTS, JUMP, STEP = 2400, 1400, 20
BUDGET = 1e6
WATCH = {"events_per_false_alarm": BUDGET, "block_events": STEP}
REACT = {"half_life_events": 40, "for_events": 200}
CURVES: list[tuple[str, str, dict[str, Any]]] = [
    ("#888", "all events alike, alarm only reported", {"drift": WATCH}),
    ("#06c", "forget: {half_life_events: 150}", {"inference": {"forget": {"half_life_events": 150}}}),
    ("#092", "react: {half_life_events: 40, for_events: 200}", {"drift": {**WATCH, "react": REACT}}),
]
WIDTH, LEFT, RATES, EVIDENCE = 760, 50, (20, 250, 0.7), (300, 420, 18.0)
"""A panel has a top, a bottom, and a largest value."""


def at(event: float, value: float, panel: tuple[float, float, float] = RATES) -> str:
    """A point of a panel."""
    top, bottom, most = panel
    return f"{LEFT + event / EVENTS * (WIDTH - LEFT - 20):.1f} {bottom - value / most * (bottom - top):.1f}"


def fits(options: dict[str, Any], rows: list[dict[str, int]]) -> list[PosteriorSnapshot]:
    """The posterior after every few events."""
    inference = {"minibatch": STEP, **options.get("inference", {})}
    model = {"kind": "bernoulli", "field": "click"}
    spec = parse_spec({"name": "clicks", "model": model, **options, "inference": inference})
    return [fit(spec, rows[:n]) for n in range(STEP, EVENTS + 1, STEP)]


def curve(colour: str, found: list[PosteriorSnapshot]) -> str:
    """The posterior mean as a line in a band of two standard deviations."""
    counts = [each.n_events for each in found]
    mean, sd = np.array([(each.mean["p"], each.sd["p"]) for each in found]).T
    line = "L".join(map(at, counts, mean))
    band = "L".join([*map(at, counts, mean + 2 * sd), *map(at, reversed(counts), (mean - 2 * sd)[::-1])])
    return (
        f'<path d="M{band}Z" fill="{colour}" fill-opacity="0.15"/>\n'
        f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
    )


def evidence(found: list[PosteriorSnapshot]) -> list[str]:
    """The log evidence of drift, the height of the alarm, and a line through both panels at each alarm."""
    states = [each.drift for each in found]
    line = "L".join(
        at(each.n_events, s["log_evidence"] or 0.0, EVIDENCE) for each, s in zip(found, states, strict=True) if s
    )
    alarms = sorted({s["alarm_at"] for s in states if s and s["alarm_at"] is not None})
    height = math.log(BUDGET)
    return [
        f'<path d="M{line}" fill="none" stroke="#444" stroke-width="1.5"/>',
        f'<path d="M{at(0, height, EVIDENCE)}L{at(EVENTS, height, EVIDENCE)}" stroke="#c30" stroke-dasharray="2 3"/>',
        *(f'<path d="M{at(a, 0.7)}L{at(a, 0, EVIDENCE)}" stroke="#c30" stroke-width="1"/>' for a in alarms),
        *(text(at(a, 17.0, EVIDENCE), f"alarm after {a:.0f} events", "start", "#c30", 6) for a in alarms),
    ]


def text(point: str, words: object, anchor: str, colour: str = "#000", dx: int = 0) -> str:
    x, y = point.split()
    return f'<text x="{x}" y="{y}" dx="{dx}" dy="4" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def drawing() -> str:
    """The whole SVG."""
    rates = np.where(np.arange(EVENTS) < JUMP, 0.2, 0.5)
    rows = [{"click": int(click)} for click in np.random.default_rng(1).random(EVENTS) < rates]
    found = [fits(options, rows) for _, _, options in CURVES]
    truth = "L".join([at(0, 0.2), at(JUMP, 0.2), at(JUMP, 0.5), at(EVENTS, 0.5)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 460" font-family="sans-serif" font-size="13" '
        'role="img" aria-label="three posteriors of a rate that jumps, and the evidence of drift">',
        f'<rect width="{WIDTH}" height="460" fill="#fff"/>',
        *(
            f'<path d="M{at(0, panel[2], panel)}L{at(0, 0, panel)}L{at(EVENTS, 0, panel)}" fill="none" stroke="#444"/>'
            for panel in (RATES, EVIDENCE)
        ),
        *(text(at(0, rate), rate, "end", dx=-8) for rate in (0.0, 0.2, 0.5)),
        *(text(at(0, height, EVIDENCE), height, "end", dx=-8) for height in (0, 5, 10, 15)),
        *(text(at(n, -2.6, EVIDENCE), n, "middle") for n in range(0, EVENTS + 1, 400)),
        text(at(EVENTS / 2, -5.0, EVIDENCE), "events", "middle"),
        text(at(0, 17.0, EVIDENCE), "log evidence of drift (alarm only reported)", "start", "#444", 20),
        *(curve(colour, each) for (colour, _, _), each in zip(CURVES, found, strict=True)),
        f'<path d="M{truth}" fill="none" stroke="#c30" stroke-dasharray="5 4"/>',
        *evidence(found[0]),
    ]
    labels = [*((colour, words) for colour, words, _ in CURVES), ("#c30", "the truth")]
    parts += [text(f"70 {30 + 18 * i}", words, "start", colour) for i, (colour, words) in enumerate(labels)]
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(drawing())
