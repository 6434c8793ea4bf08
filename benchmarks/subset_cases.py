"""The cases of steps on subsets: events that they read, effective draws beside mh, services beside their kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import sampler_cases
from benchmarks.measure import Aim, Case, Ratio, Samples
from benchmarks.sampler_cases import SERVICE
from benchmarks.sampler_task import Steps, Taken

MH, POISSON, SUBSAMPLED, FLYMC, SGLD = "mh", "poisson_mh", "subsampled_mh", "flymc", "sgld"
FEATURES, EVENTS = 10, 100_000
FEW, MANY = 10_000, 1_000_000
KERNEL = "kernel"


def cases(folder: Path, url: str, steps: int) -> Iterator[Case]:
    """So many `steps` of what is quick; a hundredth of those that read all events."""
    yield _reads(
        "o1", POISSON, steps, Ratio(f"at {MANY:,} by {FEW:,}", f"N = {MANY:,}", f"N = {FEW:,}", Aim("<=", 1.0)), 20
    )
    yield _reads(
        "o2",
        SUBSAMPLED,
        max(256, steps // 64),
        Ratio(f"at {MANY:,} by {FEW:,}, of 100", f"N = {MANY:,}", f"N = {FEW:,}", Aim("<=", 50.0)),
        None,
    )
    yield _reads(
        "o3",
        FLYMC,
        max(1024, steps // 4),
        Ratio(f"at {MANY:,} by {FEW:,}", f"N = {MANY:,}", f"N = {FEW:,}", Aim("<=", 1.0)),
        20,
    )
    yield _effective(steps)
    yield _service("o5", folder, url, Steps(POISSON, 128 * steps, n=EVENTS, d=FEATURES), thin=1024)
    yield _service("o6", folder, url, Steps(FLYMC, 2 * steps, n=EVENTS, d=FEATURES), thin=16)


def _title(n: str) -> str:
    return f"logistic regression, d = {FEATURES}, N = {n}"


def _contend(task: Steps) -> Taken:
    return sampler_cases.contend("walks", task)


def _reads(letter: str, method: str, steps: int, ratio: Ratio, most: float | None) -> Case:
    """Events that a step reads, with as many and with many more events."""

    def run(n: int) -> Callable[[], Samples]:
        return lambda: {f"N = {n:,}": _contend(Steps(method, steps, n=n, d=FEATURES)).read}

    usual = f"N = {EVENTS:,}"
    return Case(
        letter,
        f"{method}, by the mode: {_title('10,000 to 1,000,000')}",
        "events a step",
        {f"N = {n:,}": run(n) for n in (FEW, EVENTS, MANY)},
        [ratio],
        aims=None if most is None else {usual: Aim("<=", most)},
        units={usual: "events a step"},
        most=1,
    )


def _effective(steps: int) -> Case:
    tasks = {
        MH: Steps(MH, max(512, steps // 100), n=EVENTS, d=FEATURES),
        POISSON: Steps(POISSON, steps, n=EVENTS, d=FEATURES),
        SUBSAMPLED: Steps(SUBSAMPLED, max(512, steps // 64), n=EVENTS, d=FEATURES),
        FLYMC: Steps(FLYMC, max(1024, steps // 4), n=EVENTS, d=FEATURES),
        SGLD: Steps(SGLD, steps, n=EVENTS, d=FEATURES),
    }

    def run(name: str, task: Steps) -> Callable[[], Samples]:
        program = sampler_cases.NUMBA if name == SGLD else "walks"
        return lambda: {name: sampler_cases.contend(program, task).effective}

    return Case(
        "o4",
        f"effective draws: {_title(f'{EVENTS:,}')}",
        "draws/s",
        {name: run(name, task) for name, task in tasks.items()},
        [Ratio(f"{name} of mh", name, MH) for name in (POISSON, SUBSAMPLED, FLYMC, SGLD)],
    )


def _service(letter: str, folder: Path, url: str, task: Steps, thin: int) -> Case:
    return Case(
        letter,
        f"{task.method} as a service, embedded: {_title(f'{EVENTS:,}')}",
        "steps/s",
        {
            SERVICE: lambda: {SERVICE: sampler_cases.serve(folder, url, task, thin=thin)},
            KERNEL: lambda: {KERNEL: _contend(task).rate},
        },
        [Ratio("service of the kernel", SERVICE, KERNEL, Aim(">=", 0.8))],
    )
