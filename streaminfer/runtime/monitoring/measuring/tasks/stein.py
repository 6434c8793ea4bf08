"""How far the posterior is from what it should be, as one number in posterior sds: the kernel Stein discrepancy.

Of one or two numbers there is the graph Stein discrepancy as well, beside its bound; with more it tells nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.measuring import whitening
from streaminfer.measuring.densities import density_of
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.measurement import Value
from streaminfer.measuring.stein import graph, kernel
from streaminfer.measuring.values import of_graph, of_kernel
from streaminfer.models.model import Matrix
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found

GRAPH: Final = {1: 500, 2: 100}
"""How many draws the graph is of, by the numbers of the posterior: its linear programs take about a second."""


def run(context: Context) -> Found:
    theta, evidence = context.theta, context.evidence
    own = density_of(context.posterior, context.target).density
    scores = context.score.gradient(theta)
    found = kernel.measure(theta, scores, drawn_from=None if own is None else own.gradient(theta))
    values = (*of_kernel(found), *_graph(theta, scores))
    return Found(values, evidence.target, len(theta), evidence.gathered.n, evidence.base_version)


def _graph(theta: Matrix, scores: Matrix) -> tuple[Value, ...]:
    most = GRAPH.get(theta.shape[1])
    if most is None:
        return ()
    place = whitening.of_draws(theta)
    chosen = np.linspace(0, len(theta) - 1, min(len(theta), most)).astype(np.intp)
    try:
        return of_graph(graph.measure(place.points(theta[chosen]), place.scores(scores[chosen])))
    except Unknowable:  # a program without a solution; the kernel has told
        return ()
