"""The kinds of posteriors that there are golden buses of, and how their stories were made up.

Only `python -m tests.golden make` reads this: the tests have the stories themselves, in the golden data.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.golden import driving
from tests.golden.playing import BEGIN, Event, Story

Make = Callable[[random.Random, int], dict[str, Any]]
"""An event from its number."""

MINIBATCH = 8
QUIET_TICKS = 2
RESTING_TICKS = 6
"""Enough for the program to take the data to be at rest: it looks for 10 seconds without a new event."""
BAD = ("no event", '{"y": null}', "[]")
PLACES = ("lake", "hill", "wood", "path", "peak", "road")
MEALS = ("soup", "rice", "bean", "salt", "fish", "bread")


def story(
    model: dict[str, Any],
    make: Make,
    *,
    partitions: int = 1,
    ticks: int | None = None,
    scale: int = 1,
    stages: tuple[int, int] | None = None,
    sections: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    merges: bool = False,
    **inference: Any,
) -> Story:
    """With `ticks` there is one stage that is not played to its end, as there are several passes over it.

    With `stages`, (written, continued), each has the events of one minibatch, so that every base is fresh.
    """
    rng, sent = random.Random(7), 0
    spec = {
        "name": "golden",
        "data": {"partitions": partitions, **(data or {})},
        "model": model,
        "inference": {"minibatch": MINIBATCH, "linger_ms": 0, "snapshot_ms": 500, **inference},
        **(sections or {}),
    }

    def value() -> str:
        if sent % 23 == 9:
            return BAD[sent % len(BAD)]
        if spec["data"].get("format", "json") == "json":
            return json.dumps(make(rng, sent))
        many = 3 if spec["data"]["format"] == "rows" else 1
        (record,) = driving.encoded(spec, [make(rng, sent) for _ in range(many)])
        return record.decode("latin-1")

    def stage(n: int) -> list[Event]:
        nonlocal sent
        events: list[Event] = []
        for _ in range(n):
            text = value()
            events.append((rng.randrange(partitions), int(1000 * (BEGIN + sent)), text))
            sent += 1
        return events

    n = MINIBATCH * partitions * scale
    rests = "epochs" in inference or "pooled" in str(sections)
    if ticks is not None:
        written, continued = [6 * n], [2 * n, 2 * n + 5]
    elif stages is not None:
        written, continued = [n] * stages[0], [n] * stages[1]
    else:
        written, continued = [4 * n, 3 * n + 3], [2 * n, 2 * n + 5]
    return Story(
        spec=spec,
        quiet=RESTING_TICKS if rests else QUIET_TICKS,
        written=[stage(size) for size in written],
        ticks=ticks,
        learned=stage(2 * n),
        unread=stage(3 * n + 1),
        continued=[stage(size) for size in continued],
        merges=merges,
    )


def line(rng: random.Random, i: int) -> dict[str, Any]:
    a, b = round(rng.gauss(0, 1), 3), round(rng.gauss(2, 3), 3)
    return {"a": a, "b": b, "y": round(1.5 * a - 0.5 * b + 4 + rng.gauss(0, 0.7), 3), "x": rng.choice("pqr")}


def choice(rng: random.Random, i: int) -> dict[str, Any]:
    a, b = round(rng.gauss(0, 1), 3), round(rng.gauss(0, 1), 3)
    return {"a": a, "b": b, "y": int(a - 0.5 * b + rng.gauss(0, 1) > 0)}


def blobs(rng: random.Random, i: int) -> dict[str, Any]:
    at = rng.choice((-3.0, 3.0))
    return {"u": round(rng.gauss(at, 1), 3), "v": round(rng.gauss(-at, 0.5), 3)}


def city(rng: random.Random, i: int) -> dict[str, Any]:
    at = min(int(rng.expovariate(0.25)), 15)
    return {"city": f"city-{at}", "k": rng.randrange(3 + at), "y": int(rng.random() < 1 / (2 + at)), **blobs(rng, i)}


def moving_city(rng: random.Random, i: int) -> dict[str, Any]:
    """Cities come and go, so that some are idle long enough to expire."""
    return {"city": f"city-{(i // 20 + rng.randrange(3)) % 9}", "k": rng.randrange(9)}


def count(rng: random.Random, i: int) -> dict[str, Any]:
    return {"k": rng.randrange(10)}


def risen(rng: random.Random, i: int) -> dict[str, Any]:
    """Counts that are ten times as high from event 260 on."""
    return {"k": rng.randrange(4, 9) * (10 if i >= 260 else 1)}


def dated(rng: random.Random, i: int) -> dict[str, Any]:
    """Out of order by some seconds."""
    return {**blobs(rng, i), "c": rng.choice("abc"), "at": round(BEGIN + i - rng.randrange(5) + 0.25, 2)}


def document(rng: random.Random, i: int) -> dict[str, Any]:
    """A document of one of two subjects; some have a word that was never used before, some are counted, some are
    empty."""
    words = [rng.choice(rng.choice((PLACES, MEALS))) for _ in range(rng.randint(3, 9))]
    words += [f"rare-{i}"] * (i % 3 == 0)
    words = [] if i % 17 == 16 else words
    return {"words": {word: words.count(word) for word in words} if i % 4 == 0 else words}


def nested(rng: random.Random, i: int) -> dict[str, Any]:
    found = line(rng, i)
    return {"at": {"a": found["a"]}, "b.b": 0, "in": {"b": found["b"]}, "y": found["y"]}


def numbered(rng: random.Random, i: int) -> dict[str, Any]:
    """Keys as numbers; some counts cannot be."""
    return {"city": rng.randrange(12), "k": -1 if rng.random() < 0.05 else rng.randrange(9)}


def waiting(rng: random.Random, i: int) -> dict[str, Any]:
    return {"minutes": round(rng.expovariate(0.25), 3)}


def visits(rng: random.Random, i: int) -> dict[str, Any]:
    return {"customers": 0 if rng.random() < 0.3 else rng.randrange(1, 7)}


LINEAR = {"kind": "linear_regression", "features": ["a", "b"], "target": "y"}
LOGISTIC = {"kind": "logistic_regression", "features": ["a", "b"], "target": "y"}
PROBIT = {**LOGISTIC, "kind": "probit_regression"}
MIXTURE = {"kind": "gaussian_mixture", "fields": ["u", "v"], "components": 2}
GAUSSIAN = {"kind": "gaussian", "fields": ["u", "v"]}
POISSON = {"kind": "poisson", "field": "k"}
BERNOULLI = {"kind": "bernoulli", "field": "y"}
CATEGORICAL = {"kind": "categorical", "field": "c", "categories": ["a", "b", "c"]}
LDA = {"kind": "lda", "field": "words", "topics": 3}
SERIAL: dict[str, Any] = {"max_staleness": 0}
REACT = {"half_life_events": 8, "for_events": 150}
DRIFT = {"events_per_false_alarm": 300, "block_events": 4, "react": REACT}
EXPIRING = {"field": "city", "expire_after": 30.0}
POOLED = {"field": "city", "shards": 2, "default": "pooled"}


def stories() -> dict[str, Story]:
    return {
        "linear_regression": story(LINEAR, line, partitions=2),
        "logistic_svb": story(LOGISTIC, choice, partitions=2, max_staleness=2, scale=4),
        "logistic_svi": story(LOGISTIC, choice, method="svi", epochs=3, ticks=10, **SERIAL),
        "logistic_memoized": story(LOGISTIC, choice, method="memoized", epochs=3, ticks=14, **SERIAL),
        "probit_svb": story(PROBIT, choice, **SERIAL),
        "mixture_svb": story(MIXTURE, blobs, partitions=2, **SERIAL),
        "mixture_svi": story(MIXTURE, blobs, method="svi", step={"constant": 0.1}, partitions=2, **SERIAL),
        "mixture_memoized": story(MIXTURE, blobs, method="memoized", epochs=2, ticks=10, **SERIAL),
        "keyed": story(GAUSSIAN, city, partitions=2, sections={"key": {"field": "city", "shards": 2}}),
        "keyed_expiring": story(POISSON, moving_city, partitions=2, sections={"key": EXPIRING}),
        "keyed_pooled": story(BERNOULLI, city, partitions=2, sections={"key": POOLED}),
        "keyed_pooled_bounded": story(BERNOULLI, city, partitions=2, sections={"key": POOLED}),
        "keyed_half_life": story(
            POISSON, city, partitions=2, sections={"key": "city"}, forget={"half_life_events": 10}
        ),
        "lda_svb": story(LDA, document, partitions=2, **SERIAL),
        "lda_svi": story(LDA, document, method="svi", epochs=2, ticks=10, **SERIAL),
        "lda_memoized": story(LDA, document, method="memoized", epochs=2, ticks=10, **SERIAL),
        "lda_sharded": story({**LDA, "shards": 2}, document, partitions=2, **SERIAL),
        "half_life_events": story(CATEGORICAL, dated, partitions=2, forget={"half_life_events": 30}),
        "half_life_seconds": story(
            GAUSSIAN, dated, partitions=2, data={"timestamp": "at"}, forget={"half_life_seconds": 20}
        ),
        "window_events": story(LINEAR, line, partitions=2, forget={"window_events": 40}),
        "window_seconds": story(
            CATEGORICAL, dated, partitions=2, data={"timestamp": "at"}, forget={"window_seconds": 50}
        ),
        "drift": story(POISSON, risen, stages=(40, 8), sections={"drift": DRIFT}, minibatch=4),
        "json_nested": story(LINEAR, nested, data={"fields": {"a": "at.a", "b": "in.b"}}),
        "rows": story(LINEAR, line, partitions=2, data={"format": "rows"}),
        "rows_keyed": story(POISSON, numbered, partitions=2, data={"format": "rows"}, sections={"key": "city"}),
        "avro_dated": story(
            CATEGORICAL, dated, data={"format": "avro", "timestamp": "at"}, forget={"half_life_seconds": 30}
        ),
        "own_model": story(
            {"kind": "queue_models.waiting:WaitingTime", "field": "minutes", "prior": {"shape": 2, "rate": 10}}, waiting
        ),
        "merged": story(LINEAR, line, partitions=2, merges=True),
        "merged_keyed": story(
            GAUSSIAN, city, partitions=2, merges=True, sections={"key": {"field": "city", "shards": 2}}
        ),
        "own_latent": story(
            {"kind": "queue_models.visits:Visits", "field": "customers"}, visits, method="svi", **SERIAL
        ),
    }
