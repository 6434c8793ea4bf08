"""Draws docs/samplers.svg: what `step: {bias: b}` promises of a variance, and what it is.

python docs/samplers.py > docs/samplers.svg
"""

from __future__ import annotations

import numpy as np

from streaminfer import fit, parse_spec

EVENTS, FEATURES = 1000, ["a", "b", "c"]
BIASES = [0.02, 0.1, 0.2, 0.3, 0.4, 0.5]
WIDTH, HEIGHT, LEFT, TOP, HIGHEST = 760, 250, 60, 20, 1.6
CURVES = [("#06c", "sgld"), ("#393", "sghmc"), ("#888", "sgnht")]


def at(bias: float, ratio: float) -> str:
    """A point of the drawing."""
    down = (HIGHEST - ratio) / (HIGHEST - 0.9)
    return f"{LEFT + bias / 0.55 * (WIDTH - LEFT - 20):.1f} {TOP + down * (HEIGHT - TOP - 40):.1f}"


def variances(method: str, rows: list[dict[str, float]], **inference: object) -> np.ndarray:
    """Of the intercept and the weights."""
    model = {"kind": "logistic_regression", "features": FEATURES, "target": "y"}
    given = {"method": method, "chains": 2, **inference}
    found = fit(parse_spec({"name": "bias", "model": model, "inference": given}), rows)
    return np.concatenate([np.ravel(sd) for sd in found.sd.values()]) ** 2


def curve(colour: str, method: str, rows: list[dict[str, float]], exact: np.ndarray) -> str:
    """The mean ratio of variances for each bias."""
    ratios = [
        (variances(method, rows, draws=2000, warmup=1000, minibatch=64, step={"bias": b}) / exact).mean()
        for b in BIASES
    ]
    line = "L".join(map(at, BIASES, ratios))
    return f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"/>'


def drawing() -> str:
    """The whole SVG."""
    rng = np.random.default_rng(1)
    features = rng.standard_normal((EVENTS, len(FEATURES)))
    odds = features @ [1.0, -0.5, 0.25]
    labels = rng.random(EVENTS) < 1 / (1 + np.exp(-odds))
    rows = [
        {**dict(zip(FEATURES, x, strict=True)), "y": float(y)} for x, y in zip(features.tolist(), labels, strict=True)
    ]
    exact = variances("mala", rows, draws=10_000, warmup=500)
    promised = "L".join([at(0, 1.0), at(0.5, 1.5)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13" role="img" aria-label="variance of draws by that of the posterior, for each bias">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<path d="M{at(0, HIGHEST)}L{at(0, 0.9)}L{at(0.55, 0.9)}" fill="none" stroke="#444"/>',
        *(
            f'<text x="{LEFT - 8}" y="{at(0, r).split()[1]}" dy="4" text-anchor="end">{r}</text>'
            for r in (1.0, 1.25, 1.5)
        ),
        *(
            f'<text x="{at(b, 1).split()[0]}" y="{HEIGHT - 22}" text-anchor="middle">{b}</text>'
            for b in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
        ),
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 5}" text-anchor="middle">step.bias</text>',
        *(curve(colour, method, rows, exact) for colour, method in CURVES),
        f'<path d="M{promised}" fill="none" stroke="#c30" stroke-dasharray="5 4"/>',
    ]
    named = [*CURVES, ("#c30", "1 + bias: as wrong as it may be")]
    parts += [f'<text x="80" y="{40 + 18 * i}" fill="{colour}">{text}</text>' for i, (colour, text) in enumerate(named)]
    return "\n".join([*parts, "</svg>"])


if __name__ == "__main__":
    print(drawing())
