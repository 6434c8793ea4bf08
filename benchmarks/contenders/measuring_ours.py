"""Our measures of draws in memory, one thread."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.measuring_task import Work, received, tell, timed
from benchmarks.sampler_task import Steps
from streaminfer.combining import moments
from streaminfer.measuring import score_regression, whitening
from streaminfer.measuring.stein import graph, kernel, thinning
from streaminfer.measuring.whitening import Whitening
from streaminfer.models.targets import mode
from streaminfer.models.targets.density import Density
from streaminfer.spec import parse_spec

CHOSEN = 100
"""Draws that thinning chooses."""


def stein_kernel(work: Work) -> Callable[[int], float]:
    x, place = work.draws(), Whitening(np.zeros(work.d), np.eye(work.d))
    return lambda n: kernel.measure(x[:n], -x[:n], place=place).v


def stein_graph(work: Work) -> Callable[[int], float]:
    x = work.draws()
    return lambda n: graph.measure(x[:n], -x[:n]).value


def stein_thinning(work: Work) -> Callable[[int], float]:
    """The sum of indices."""
    x = work.draws()
    return lambda n: float(thinning.plain(x[:n], -x[:n], CHOSEN).sum())


def regression(work: Work) -> Callable[[int], float]:
    """Of the Laplace approximation of a logistic posterior: the worst coverage."""
    task = Steps("sgld", 1, n=work.events, d=work.d)
    spec = parse_spec({"name": "bench", "model": task.model, "inference": {"method": task.method}})
    density = Density(spec.target, np.ascontiguousarray(spec.target.rows(task.events())))
    found = mode.find(density)
    published = whitening.of_moments(found.theta, moments.inverse(density.curvature(found.theta)))
    theta = published.theta(work.draws())

    def measure(n: int) -> float:
        return float(score_regression.measure(theta[:n], density.gradient, published=published).coverage.min())

    return measure


MEASURES = {"kernel": stein_kernel, "graph": stein_graph, "thinning": stein_thinning, "regression": regression}


if __name__ == "__main__":
    work = received()
    tell(timed(MEASURES[work.measure](work), work.n))
