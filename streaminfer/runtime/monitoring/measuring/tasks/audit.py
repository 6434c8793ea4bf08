"""Whether the posterior is that of its log: computed once more, in another way.

Exact models: the statistics of the events in the log, added to those of an older snapshot, are those of the newest one.
Others: a long exact chain on the same target, compared in deviations.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.measuring import audit, functions, score_regression, whitening
from streaminfer.measuring.audit import Published
from streaminfer.measuring.functions import Functions
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.whitening import Whitening
from streaminfer.models.model import Counting, Matrix, Vector, is_conjugate, with_posterior
from streaminfer.runtime.monitoring.measuring.context import Context, Evidence
from streaminfer.runtime.monitoring.measuring.found import Found, value
from streaminfer.runtime.monitoring.measuring.gathering import Miscounted
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.kernels import mala
from streaminfer.sampling.pooled import effective
from streaminfer.variational.methods import method_of

WARMUP: Final = 1_000
STEPS: Final = 5_000
WORTH: Final = 100.0
"""Effective draws that its chain must have at least."""


def run(context: Context) -> Found:
    spec = context.spec
    try:
        evidence = context.audited
    except Miscounted as error:
        # another number of events is a difference of statistics that all models have
        more = error.said - error.found
        values = (value("difference", "", abs(more) / max(1, error.found)), value("events", "", more))
        return Found(values, n_data=error.found)
    if is_conjugate(spec.model) and spec.sampling is None and spec.inference.method != "svi":
        return _statistics(context, evidence)
    return _chain(context)


def _statistics(context: Context, evidence: Evidence) -> Found:
    model = with_posterior(context.spec.model)
    gained = evidence.gathered.statistics
    if gained is None:
        raise Unknowable("The model has no statistics of events.")
    before = model.empty() if evidence.base is None else evidence.weighing.aged(model, evidence.base)
    expected = model.merge(before, gained)
    held = method_of(context.spec.inference).published(model, context.spec.inference, context.snapshot)
    values = [value("difference", "", _relative(model.posterior(held).natural, model.posterior(expected).natural))]
    if isinstance(model, Counting):
        here, there = model.total_weight(np.stack([held, expected])).tolist()
        values.append(value("events", "", here - there))
    return Found(tuple(values), evidence.target, 0, evidence.gathered.n, evidence.base_version)


def _relative(found: Vector, expected: Vector) -> float:
    """The largest difference, as a part of the larger of a number and a millionth of the largest one."""
    scale = np.maximum(np.abs(expected), 1e-6 * np.abs(expected).max(initial=1e-300))
    return float(np.max(np.abs(found - expected) / scale, initial=0.0))


def _chain(context: Context) -> Found:
    """Draws of a Metropolis-adjusted Langevin chain, whose scale is what the scores say."""
    spec, density = context.spec, context.density
    place = whitening.of_draws(context.theta)
    rough = score_regression.measure(context.theta, context.score.parts, published=place, batch=context.batch)
    rng, by = context.rng("audit"), preconditioning.covariance(rough.cov)
    state = mala.init(density, rough.mean, len(rough.mean) ** (-1 / 3))
    state, _, _ = mala.steps(density, state, rng, WARMUP, by, adapting=True)
    _, drawn, _ = mala.steps(density, state, rng, STEPS, by)
    if (worth := effective.least([drawn])) < WORTH:
        raise Unknowable(f"A long exact chain moves too slowly to be compared with: it has {worth:.0f} draws.")
    watched = functions.of(context.target, spec.model.labels, place, spec.monitor.estimands)
    return _compared(context.evidence, watched, place, drawn)


def _compared(evidence: Evidence, watched: Functions, place: Whitening, drawn: Matrix) -> Found:
    """In published deviations."""
    reach = watched.rows @ place.root
    published = Published(np.zeros(len(reach)), np.sqrt(np.einsum("ci,ci->c", reach, reach)))
    found = audit.compared(published, [(drawn - place.mean) @ watched.rows.T])
    columns = {
        "coverage": (found.coverage, found.coverage_se),
        "shift": (found.shift, found.shift_se),
        "ratio": (found.ratio, found.ratio_se),
    }
    values = tuple(
        value(name, where, numbers[i], errors[i])
        for i, where in enumerate(watched.names)
        for name, (numbers, errors) in columns.items()
    )
    return Found(values, evidence.target, len(drawn), evidence.gathered.n, evidence.base_version)
