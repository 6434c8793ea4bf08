"""What a 95% interval really holds: score regression of the draws, for each number that is watched."""

from __future__ import annotations

import numpy as np

from streaminfer.measuring import functions, score_regression, whitening
from streaminfer.measuring.values import of_regression
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found, value


def run(context: Context) -> Found:
    spec, theta = context.spec, context.theta
    place = whitening.of_draws(theta)
    watched = functions.of(context.target, spec.model.labels, place, spec.monitor.estimands)
    found = score_regression.measure(
        theta,
        context.score.parts,
        published=place,
        functions=watched.rows,
        batch=context.batch,
        correction=context.score.correction,
    )
    worst = int(np.nanargmin(found.coverage)) if np.isfinite(found.coverage).any() else 0
    summary = value("worst_coverage", "", found.coverage[worst], found.coverage_se[worst])
    evidence = context.evidence
    return Found(
        (summary, *of_regression(found, watched.names)),
        evidence.target,
        len(theta),
        evidence.gathered.n,
        evidence.base_version,
    )
