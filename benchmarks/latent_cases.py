"""The cases of models whose increments need a base: a logistic regression and a mixture of Gaussians by svb."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.contenders.task import Outcome
from benchmarks.measure import Case, Ratio, rate
from benchmarks.workload import COMPONENTS, LOGISTIC, MIXTURE, Workload

Run = Callable[[Workload], Outcome]
OURS, STEPS, RIVER = "streaminfer", "bare steps", "River"


def cases(ours: Run, steps: Run, river: Run, events: int, few: int) -> Iterator[Case]:
    """So many `events`, and `few` for River."""
    logistic = Workload("json", events, kind=LOGISTIC)
    yield _case(
        "k1",
        f"logistic regression by svb, d = {logistic.d}",
        logistic,
        {OURS: ours, STEPS: steps},
        {RIVER: lambda: river(Workload("memory", few, kind=LOGISTIC))},
    )
    mixture = Workload("json", events, d=4, kind=MIXTURE)
    title = f"mixture of Gaussians by svb, K = {COMPONENTS}, d = {mixture.d}"
    yield _case("k2", title, mixture, {OURS: ours, STEPS: steps}, {})


def _case(
    letter: str, title: str, work: Workload, runs: dict[str, Run], peers: dict[str, Callable[[], Outcome]]
) -> Case:
    contenders = {name: rate(name, lambda run=run: run(work)) for name, run in runs.items()}  # type: ignore[misc]
    contenders |= {name: rate(name, run) for name, run in peers.items()}
    return Case(
        letter,
        f"embedded, one JSON record an event, one worker: {title}",
        "events/s",
        contenders,
        [Ratio(f"of {name}", OURS, name) for name in contenders if name != OURS],
    )
