"""How far the method is from true posteriors, on data that is simulated: bidirectional Monte Carlo."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaminfer.measuring import bdmc
from streaminfer.measuring.bdmc import Dataset
from streaminfer.measuring.densities import density_of
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.model import Matrix, Posterior, with_posterior
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found, value
from streaminfer.variational.base import Base
from streaminfer.variational.methods import METHODS, method_of

CHAINS = 10


def run(context: Context) -> Found:
    spec, settings = context.spec, context.spec.monitor.bdmc
    if spec.sampling is not None:
        raise Unknowable("Draws have no variational bound, so their distance from the posterior is not bounded.")
    if not hasattr(spec.model, "simulate"):
        raise Unknowable("The model cannot simulate events.", "Give its class a `simulate`.")
    events = context.evidence.gathered.events[: settings.events]
    model = with_posterior(spec.model)
    statistics = method_of(spec.inference).published(model, spec.inference, context.snapshot)
    start = bdmc.base_of(model, context.target, statistics, context.snapshot.n_effective)
    if start.density is None or settings.datasets < 2:
        raise Unknowable("The density of this model's posteriors is not known, or there are fewer than 2 data sets.")
    rng = context.rng("evidence")
    found = [_dataset(context, start, events, rng) for _ in range(settings.datasets)]
    told = bdmc.divergence(found)
    kl = value("kl", "", 0.5 * (told.lower + told.upper), max(told.lower_se, told.upper_se))
    values = (kl._replace(lower=told.lower, upper=told.upper), value("gap", "", told.gap, told.gap_se))
    return Found(values, "", CHAINS, len(events))


def _dataset(context: Context, start: Any, events: Matrix, rng: np.random.Generator) -> Dataset:
    """The bounds of one data set, and what the method of the spec makes of it."""
    model, target = context.spec.model, context.target
    exact, made = bdmc.simulated(model, target, start, events, rng)
    along = bdmc.path(target, target.rows(made), start, context.spec.monitor.bdmc.temperatures, rng)
    *_, forward = bdmc.run(along, start.sample(rng, CHAINS), "forward", rng)
    *_, reverse = bdmc.run(along, np.repeat(exact[None], CHAINS, axis=0), "reverse", rng)
    fitted = density_of(_fitted(context, made), target)
    return Dataset(bdmc.sandwich(forward.log_weights, reverse.log_weights), bdmc.elbo(fitted, along, rng))


def _fitted(context: Context, events: Matrix) -> Posterior:
    """The posterior of simulated events by the spec's own minibatches; a method that visits them again has one."""
    spec = context.spec
    model, weight = with_posterior(spec.model), bdmc.weight_of(context.target, context.snapshot.n_effective)
    statistics = model.scale(method_of(spec.inference).published(model, spec.inference, context.snapshot), weight)
    size = spec.inference.minibatch if spec.inference.method == "svb" else len(events)
    for begin in range(0, len(events), size):
        start = Base(0, begin, statistics, model.posterior(statistics))
        step = METHODS["svb"].learn(model, spec.inference, start, events[begin : begin + size], None, None)
        statistics = model.merge(statistics, step.statistics)
    return model.posterior(statistics)
