"""The cases of combiners: the average beside NumPyro's, all others, and how time grows with J, T and d."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isnan
from pathlib import Path

from benchmarks import combined
from benchmarks.combiner_task import Told, Work
from benchmarks.measure import Aim, Case, Difference, Ratio, Samples
from benchmarks.processes import output, running
from benchmarks.sampler_task import Steps
from streaminfer.combining.table import COMBINERS

OURS, NUMPYRO, MEMORY = "average", "NumPyro", "average: memory"
FRESH, NEWEST = "draw to snapshot", "newest draw to its snapshot"
RESTORE, START = "restore", "restore of nothing"
OFF, WIDTH = "{}: mean off", "{}: width"


def cases(folder: Path, url: str, j: int, steps: int) -> Iterator[Case]:
    """`j` subposteriors of 10,000 draws of 50 numbers; services whose chains take so many `steps`."""
    whole = Work("average", j, n=None)
    size = f"{j} x {whole.t:,} draws of {whole.d} numbers"
    yield Case(
        "m1",
        f"weighted average, one thread: {size}",
        "s",
        {OURS: lambda: _ours(whole), NUMPYRO: lambda: {NUMPYRO: contend("combining_numpyro", whole).seconds}},
        [Ratio("NumPyro of ours", NUMPYRO, OURS, Aim(">=", 1.0))],
        {MEMORY: Aim("<=", 1.2)},
        units={MEMORY: "of the draws"},
    )
    yield Case(
        "m2",
        f"combiners: {size}",
        "s",
        {name: _with_quality(name, Work(name, j)) for name in COMBINERS},
        units={OFF.format(name): "sd" for name in COMBINERS} | {WIDTH.format(name): "of sd" for name in COMBINERS},
        most=1,
    )
    base = Work("average", max(2, j // 10), 1000, 10)
    grown = {"J": replace(base, j=10 * base.j), "T": replace(base, t=10 * base.t), "d": replace(base, d=10 * base.d)}
    for k, name in enumerate(("average", "kde"), start=3):
        works = {"base": base, **{f"10 {axis}": work for axis, work in grown.items()}}
        yield Case(
            f"m{k}",
            f"growth of {name} from {base.j} x {base.t:,} draws of {base.d} numbers",
            "s",
            {label: _seconds(label, replace(work, by=name)) for label, work in works.items()},
            [Ratio(f"{label} of base", label, "base") for label in works if label != "base"],
        )
    yield service(folder, url, Steps("sgld", steps, n=20_000, d=10))


def service(folder: Path, url: str, task: Steps) -> Case:
    """Freshness of a combiner among samplers, and its restore beside that of one without draws."""

    def run() -> Samples:
        found = combined.measure(folder, url, task)
        return {FRESH: found.any_draw, NEWEST: found.newest, RESTORE: found.restore, START: found.empty}

    return Case(
        "m5",
        f"a combiner as a service, embedded: {combined.SUBPOSTERIORS} subposteriors of {task.steps:,} steps, sgld",
        "s",
        {FRESH: run},
        [Difference("restore less that of nothing", RESTORE, START, unit="s")],
        units={RESTORE: "s", START: "s"},
    )


def _ours(work: Work) -> Samples:
    found = contend("combining_ours", work)
    return {OURS: found.seconds, MEMORY: found.memory}


def _with_quality(label: str, work: Work) -> Callable[[], Samples]:
    """Seconds, and how good the posterior is, unless the combiner refused the draws."""

    def samples() -> Samples:
        found = contend("combining_ours", work)
        quality = {OFF.format(label): found.off, WIDTH.format(label): found.width}
        return {label: found.seconds} | {name: value for name, value in quality.items() if not isnan(value)}

    return samples


def _seconds(label: str, work: Work) -> Callable[[], Samples]:
    return lambda: {label: contend("combining_ours", work).seconds}


def contend(program: str, work: Work) -> Told:
    with running(["-m", f"benchmarks.contenders.{program}", work.to_json()]) as process:
        return Told(**json.loads(output(process).splitlines()[-1]))
