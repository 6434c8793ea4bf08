"""Measures what staleness costs, with the rule that lets a posterior start serially and without it.

python docs/staleness.py > docs/staleness.svg    # the figures go to standard error

Every minibatch starts from the posterior as it was some minibatches ago, as minibatches of parallel workers do. If the
master finds that base too old, the minibatch is learned again from the newest posterior.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streaminfer import parse_spec
from streaminfer.models.lda.documents import Documents
from streaminfer.models.lda.model import Lda
from streaminfer.spec import Spec
from streaminfer.variational import fold, methods
from streaminfer.variational.base import too_old
from streaminfer.variational.counts import Counts
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.increment import Change, Increment, Provenance
from streaminfer.variational.lda import absorb, completion, start, topics
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot

STALENESS = (0, 1, 4, 16)
MINIBATCHES, SIZE = 64, 64
WORDS, TOPICS = 200, 8


class Loss(NamedTuple):
    """Nats lost for each held-out event (LDA: word), compared with a serial run, by staleness."""

    ramped: list[float]
    free: list[float]


def streamed(spec: Spec, batches: Sequence[np.ndarray], held_out: np.ndarray, staleness: int, ramp: bool) -> float:
    """The mean log predictive density of held-out events after one pass."""
    passed: list[Snapshot] = [replace(fold.start(spec.model, ""), frontier=Frontier({0: 0}))]
    for events in batches:
        for known in (passed[max(0, len(passed) - 1 - staleness)], passed[-1]):
            after, outcome = _folded(spec, passed[-1], known, events, ramp)
            if outcome.moved:
                break
        passed.append(replace(after, version=after.version + 1))
    return float(np.mean(methods.base_of(spec.model, spec.inference, passed[-1]).posterior.log_predictive(held_out)))


def _folded(spec: Spec, newest: Snapshot, known: Snapshot, events: np.ndarray, ramp: bool) -> tuple[Snapshot, Outcome]:
    given, at, n = methods.base_of(spec.model, spec.inference, known), newest.frontier.positions[0], len(events)
    learned = methods.learn(spec.model, spec.inference, given, events, None)
    came = Provenance("", "", "", 0, at, at + n, known.version)
    change = Increment(came, Counts(n, score=learned.score), Change(learned.statistics))
    of_base = given.n_events if ramp else None
    return fold.add(spec.model, newest, change, 0, inference=spec.inference, base_events=of_base)


def mixture(staleness: int, ramp: bool) -> float:
    """Four clusters in the plane, six components."""
    rng = np.random.default_rng(1)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
    events = centres[rng.integers(0, 4, 6096)] + rng.normal(size=(6096, 2))
    model = {"kind": "gaussian_mixture", "fields": ["a", "b"], "components": 6}
    return _of_a_spec(model, events, staleness, ramp)


def probit(staleness: int, ramp: bool) -> float:
    """Twenty features with large weights, from a vague prior."""
    rng, d = np.random.default_rng(2), 20
    weights, x = 3 * rng.normal(size=d), rng.normal(size=(6096, d))
    y = x @ weights + rng.normal(size=6096) > 0
    features = [f"x{i}" for i in range(d)]
    model = {"kind": "probit_regression", "features": features, "target": "y", "prior": {"precision": 1e-4}}
    return _of_a_spec(model, np.column_stack([x, y]), staleness, ramp)


def _of_a_spec(model: dict[str, Any], events: np.ndarray, staleness: int, ramp: bool) -> float:
    spec = parse_spec({"name": "stale", "model": model})
    return streamed(
        spec, np.split(events[: MINIBATCHES * SIZE], MINIBATCHES), events[MINIBATCHES * SIZE :], staleness, ramp
    )


@cache
def documents() -> Documents:
    """Documents of about fifty words each, drawn from eight topics over two hundred words."""
    rng = np.random.default_rng(3)
    truth = rng.dirichlet(np.full(WORDS, 0.05), TOPICS)
    shares = rng.dirichlet(np.full(TOPICS, 0.3), MINIBATCHES * SIZE + 256) @ truth
    counts = [rng.multinomial(rng.poisson(50), share / share.sum()) for share in shares]
    return Documents.of({int(w): float(each[w]) for w in np.flatnonzero(each)} for each in counts)


def lda(staleness: int, ramp: bool) -> float:
    """The mean over eight starts: a single one may find another optimum, 0.03 nats better or worse."""
    prior = {"document": 0.3, "topic": 0.1}
    model = {"kind": "lda", "field": "words", "topics": TOPICS, "prior": prior}
    specs = [parse_spec({"name": "stale", "model": {**model, "seed": seed}}) for seed in range(8)]
    return float(np.mean([_topics(spec.words, staleness, ramp) for spec in specs if spec.words]))


def _topics(model: Lda, staleness: int, ramp: bool) -> float:
    first = start.start([b"%d" % w for w in range(WORDS)], TOPICS, model.seed)
    nothing = topics.prior(WORDS, model.concentration, TOPICS, WORDS)
    passed = [nothing._replace(by_mean=model.by_mean)]
    for i, batch in enumerate(documents().select(np.arange(MINIBATCHES * SIZE)).split(SIZE)):
        known = max(0, i - staleness)
        known = i if ramp and too_old(model, SIZE * i, SIZE * known) else known
        learned = absorb.absorb(passed[known], batch, model.alpha, first=first if known == 0 else None)
        passed.append(passed[-1].plus(learned.statistics))
    held_out = documents().select(np.arange(MINIBATCHES * SIZE, documents().n))
    return completion.score(passed[-1], held_out, model.alpha, seed=1).mean()


EXPERIMENTS: dict[str, Callable[[int, bool], float]] = {"mixture": mixture, "probit": probit, "LDA": lda}


def measured(run: Callable[[int, bool], float]) -> Loss:
    serial = run(0, True)
    return Loss(*([serial - run(s, ramp) for s in STALENESS] for ramp in (True, False)))


WIDTH, HEIGHT, LEFT, TOP, MOST = 760, 230, 60, 20, 0.25


def at(place: int, loss: float) -> str:
    """A point of the drawing."""
    x = LEFT + (place + 0.5) / len(STALENESS) * (WIDTH - LEFT - 20)
    return f"{x:.1f} {TOP + (1 - np.clip(loss, 0.0, MOST) / MOST) * (HEIGHT - TOP - 50):.1f}"


def drawing(losses: dict[str, Loss]) -> str:
    """The whole SVG."""
    colours = dict(zip(losses, ("#06c", "#c30", "#383"), strict=True))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13" role="img" aria-label="what staleness costs, with and without a serial start">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<path d="M{LEFT} {TOP}V{HEIGHT - 50}H{WIDTH - 20}" fill="none" stroke="#444"/>',
        *(
            f'<text x="{LEFT - 8}" y="{at(0, loss).split()[1]}" dy="4" text-anchor="end">{loss:g}</text>'
            for loss in (0.0, 0.1, 0.2)
        ),
        *(
            f'<text x="{at(i, 0).split()[0]}" y="{HEIGHT - 32}" text-anchor="middle">{s}</text>'
            for i, s in enumerate(STALENESS)
        ),
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 10}" text-anchor="middle">minibatches between a base and its use; '
        "nats lost for each held-out event or word</text>",
    ]
    for i, (name, loss) in enumerate(losses.items()):
        for values, dashes in ((loss.ramped, ""), (loss.free, ' stroke-dasharray="5 4"')):
            line = "L".join(at(place, value) for place, value in enumerate(values))
            parts.append(f'<path d="M{line}" fill="none" stroke="{colours[name]}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{LEFT + 20}" y="{40 + 18 * i}" fill="{colours[name]}">{name}</text>')
    parts.append(f'<text x="{LEFT + 110}" y="40" fill="#444">dashed: without the serial start</text>')
    return "\n".join([*parts, "</svg>"])


def main() -> None:
    losses = {name: measured(run) for name, run in EXPERIMENTS.items()}
    for name, loss in losses.items():
        for kind, values in loss._asdict().items():
            print(f"{name:8} {kind:7}" + "".join(f"{value:9.4f}" for value in values), file=sys.stderr)
    print(drawing(losses))


if __name__ == "__main__":
    main()
