"""The cases of measures: Stein discrepancies and thinning beside stein_thinning, and score regression."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isclose

from benchmarks.measure import Aim, Case, Ratio, Samples
from benchmarks.measuring_task import Told, Work
from benchmarks.processes import Failed, output, running

OURS, PEER, MEMORY = "ours", "stein_thinning", "ours: memory"


def cases() -> Iterator[Case]:
    """All take seconds, and are the same in a quick run."""
    pairs = Work("kernel", 5000, 10)
    yield _beside("n1", "kernel Stein discrepancy", pairs, {OURS: Aim("<=", 1.0), MEMORY: Aim("<=", 50)})
    yield _beside("n2", "Stein thinning to 100", replace(pairs, measure="thinning"))
    yield Case(
        "n3",
        "graph Stein discrepancy by draws of one number",
        "s",
        {f"{n:,} draws": _seconds(f"{n:,} draws", Work("graph", n, 1)) for n in (250, 1000)},
        [Ratio("four times the draws", "1,000 draws", "250 draws")],
    )
    regression = Work("regression", 1000, 10, events=20_000)
    yield Case(
        "n4",
        f"score regression, all of {regression.events:,} events of {regression.d} features, {regression.n:,} draws",
        "s",
        {OURS: _seconds(OURS, regression)},
    )


def _beside(letter: str, title: str, work: Work, aims: dict[str, Aim] | None = None) -> Case:
    """Ours and the peer's, which must come to the same value."""
    values: dict[str, float] = {}

    def told(name: str, program: str) -> Told:
        found = contend(program, work)
        values[name] = found.value
        if not isclose(found.value, values.get(OURS, found.value), rel_tol=1e-9):
            raise Failed(f"{name} has the value {found.value!r}, and ours is {values[OURS]!r}")
        return found

    def ours() -> Samples:
        found = told(OURS, "measuring_ours")
        return {OURS: found.seconds, MEMORY: found.memory}

    return Case(
        letter,
        f"{title}, one thread: {work.n:,} draws of {work.d} numbers",
        "s",
        {OURS: ours, PEER: lambda: {PEER: told(PEER, "measuring_stein_thinning").seconds}},
        [Ratio(f"{PEER} of ours", PEER, OURS)],
        aims,
        units={OURS: "s", MEMORY: "MB"},
    )


def _seconds(label: str, work: Work) -> Callable[[], Samples]:
    return lambda: {label: contend("measuring_ours", work).seconds}


def contend(program: str, work: Work) -> Told:
    with running(["-m", f"benchmarks.contenders.{program}", work.to_json()]) as process:
        return Told(**json.loads(output(process).splitlines()[-1]))
