"""Events of few keys for tests, and a worker and a master that take them in."""

from __future__ import annotations

import random
from typing import Any

from tests.runtime.keyed_rig import KeyedRig, Sent

BEGIN = 1_700_000_000_000

CITIES = ("a", "b", "ö", "d/e", "", "7")


def event(kind: str, rng: random.Random) -> dict[str, Any]:
    match kind:
        case "bernoulli":
            return {"y": rng.randrange(2)}
        case "categorical":
            return {"c": rng.choice("abc")}
        case "poisson":
            return {"k": rng.randrange(9), "t": rng.uniform(0.5, 2)}
        case "gaussian":
            return {"u": rng.gauss(5, 2), "v": rng.gauss(-1, 1)}
    return {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1), "y": rng.gauss(0, 3)}


def stream(kind: str, n: int, partitions: int, seed: int = 1) -> Sent:
    """Events of few keys, each spread over all partitions; times are not in order."""
    rng = random.Random(seed)
    keys = [city for city in CITIES if city]
    return [
        (rng.randrange(partitions), BEGIN + rng.randrange(20_000), {"city": rng.choice(keys), **event(kind, rng)})
        for _ in range(n)
    ]


def run(rig: KeyedRig, rounds: int = 12) -> None:
    rig.run(rig.master(), rig.worker(), rounds=rounds)
