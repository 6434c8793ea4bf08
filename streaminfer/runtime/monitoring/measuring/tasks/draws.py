"""Whether the chains of a sampled posterior agree, and what their draws are worth; and how well they were combined."""

from __future__ import annotations

import numpy as np

from streaminfer.measuring import diagnostics, functions
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.values import of_diagnostics
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found, value
from streaminfer.sampling import flat
from streaminfer.tables.draws import posterior_of, sampled


def chains(context: Context) -> Found:
    """R-hat, effective draws and Monte-Carlo errors of the numbers that are watched, and of the log density."""
    spec, target = context.spec, context.spec.target
    if sampled(context.snapshot).shown.combined is not None:
        raise Unknowable("The draws are a combination of subposteriors, so there are no chains of the posterior.")
    held = posterior_of(spec, context.snapshot).chains()
    whole = flat.flatten({name: values.reshape(-1, *values.shape[2:]) for name, values in held.items()}, target.shapes)
    m, n = next(iter(held.values())).shape[:2]
    if m < 2:
        raise Unknowable("There is one chain, and one chain cannot disagree.", "Set inference.chains to 4.")
    watched = functions.places(target.shapes, spec.model.labels, spec.monitor.estimands)
    columns = [whole[:, list(watched.values())]]
    names = list(watched)
    if (logs := _log_densities(context, len(whole))) is not None:
        columns, names = [*columns, logs[:, None]], [*names, "log_density"]
    found = diagnostics.measure(np.hstack(columns).reshape(m, n, -1))
    return _told(found, names, m, n)


def _log_densities(context: Context, n: int) -> np.ndarray | None:
    """Of the draws in their order, if it is known."""
    try:
        density = context.density
    except Unknowable:
        return None
    return density.log_density(context.theta) if len(context.theta) == n else None


def _told(found: diagnostics.Diagnostics, names: list[str], m: int, n: int) -> Found:
    if np.isnan(found.r_hat).all():
        raise Unknowable("No number of the posterior moves in any chain.", "Make inference.step smaller.")
    return Found((value("chains", "", m), *of_diagnostics(found, names)), n_draws=m * n)


def combined(context: Context) -> Found:
    """How far the exact density corrects a combination of subposteriors: Pareto's k."""
    shown = sampled(context.snapshot).shown
    how = shown.combined
    if how is None:
        raise Unknowable("Nothing was combined yet.", "Wait for the draws of all subposteriors.")
    if how.k_hat is None:
        raise Unknowable(
            "The combination was not corrected by the exact density.", "Set inference.combine.correct to importance."
        )
    values = [value("k_hat", "", how.k_hat)]
    values += [] if how.threshold is None else [value("k_hat_limit", "", how.threshold)]
    return Found(tuple(values), n_draws=shown.n_draws)
