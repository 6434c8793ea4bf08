"""The checks that a child makes: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from streaminfer.measuring.measurement import Subject
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found
from streaminfer.runtime.monitoring.measuring.limits import CPU_S
from streaminfer.runtime.monitoring.measuring.tasks import (
    audit,
    calibration,
    coverage,
    draws,
    evidence,
    movement,
    starts,
    stein,
)
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of


def _always(_spec: Spec) -> bool:
    return True


def _each_version(_spec: Spec) -> None:
    return None


def _one_density(spec: Spec) -> str | None:
    """Whether there is one density of some numbers to compare with."""
    if kind_of(spec).by_key:
        return "Every key has a posterior of its own, and only posteriors of all events are measured."
    if kind_of(spec).of_topics:
        return "Topics of words have no density whose scores could be compared."
    if spec.sampling is not None and spec.sampling.source == "stream":
        return "Chains that go along a stream have no fixed events that they could be compared with."
    return None


def _one_posterior(spec: Spec) -> str | None:
    if kind_of(spec).by_key:
        return "Every key has a posterior of its own, and only posteriors of all events are measured."
    return "Topics of words are not compared with earlier ones." if kind_of(spec).of_topics else None


def _nothing(_spec: Spec) -> None:
    return None


def _is_pooled(spec: Spec) -> bool:
    return spec.sampling is not None and spec.sampling.combine is None


def _is_combined(spec: Spec) -> bool:
    return spec.sampling is not None and spec.sampling.combine is not None


class Task(NamedTuple):
    """One row."""

    check: str
    subject: Subject
    run: Callable[[Context], Found]
    """Raises Unknowable."""
    fits: Callable[[Spec], bool] = _always
    """Whether the check is one of a spec at all."""
    obstacle: Callable[[Spec], str | None] = _one_density
    """Why it can never be told of a spec that it fits, in a sentence; None: it can."""
    every: Callable[[Spec], float | None] = _each_version
    """Seconds after which it is made again; None: for each version that is measured."""
    cpu_seconds: float = CPU_S
    """It is killed when it takes longer."""


TASKS: Final[Mapping[str, Task]] = {
    task.check: task
    for task in (
        Task("coverage", "posterior", coverage.run),
        Task("stein", "posterior", stein.run),
        Task("draws", "draws", draws.chains, _is_pooled, _nothing),
        Task("combined", "combined", draws.combined, _is_combined, _nothing),
        Task("movement", "posterior", movement.run, lambda spec: not spec.inference.windowed, _one_posterior),
        Task("calibration", "posterior", calibration.run, obstacle=_one_posterior),
        Task("starts", "posterior", starts.run, lambda spec: spec.model.kind == "gaussian_mixture"),
        Task("audit", "posterior", audit.run, every=lambda spec: spec.monitor.audit.every_seconds, cpu_seconds=600.0),
        Task(
            "evidence", "posterior", evidence.run, every=lambda spec: spec.monitor.bdmc.every_seconds,
            cpu_seconds=1200.0,
        ),
    )
}  # fmt: skip


def tasks_of(spec: Spec) -> tuple[Task, ...]:
    """The checks of a spec."""
    return tuple(task for task in TASKS.values() if task.fits(spec))
