"""Stochastic variational inference, the worker's part: the expected statistics of a minibatch under the posterior.

Angelino, Johnson and Adams 2016, algorithm «SVI»; Hoffman et al. 2013. They are sent unscaled with the count of events.
The master takes the step: only it knows the size of the next step and how many events there are (see `blend`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Filter, Latent, Matrix, Model, Vector
from streaminfer.models.options import Integer, Number, Option, OptionsError, Section
from streaminfer.variational import epochs
from streaminfer.variational.base import Base
from streaminfer.variational.methods import svb
from streaminfer.variational.methods.svb import Step, score
from streaminfer.variational.settings import Inference
from streaminfer.variational.steps import KAPPA, TAU

STEP: Final = Section(
    (
        Option(
            "tau",
            Number(minimum=0.0, maximum=1e9),
            "Delays the schedule (tau + t)^-kappa of steps t = 1, 2, …; not set means 64 if steps are not constant.",
            None,
        ),
        Option(
            "kappa",
            Number(above=0.5, maximum=1.0),
            "How fast the steps of the schedule become smaller; not set means 0.7 if steps are not constant.",
            None,
        ),
        Option(
            "constant",
            Number(above=0.0, maximum=1.0),
            "The size of every step; what is published is then an average of the later posteriors.",
            None,
        ),
    )
)
OPTIONS: Final = (
    Option("step", STEP, "The sizes of the steps of svi.", None),
    Option(
        "population",
        Integer(1, 10**15),
        "How many events the posterior of svi stands for; not set means as many as were seen so far.",
        None,
    ),
    epochs.OPTION,
)


def complete(options: dict[str, Any]) -> dict[str, Any]:
    """Steps have sizes, also if the spec does not say which."""
    step = options["step"] or STEP.check({}, "step", [])
    if step["constant"] is None:
        step = {**step, "tau": step["tau"] if step["tau"] is not None else TAU, "kappa": step["kappa"] or KAPPA}
    return {**options, "step": step}


def check(options: Mapping[str, Any]) -> None:
    """Raises OptionsError if steps are said to be constant and to have a schedule."""
    step = options["step"]
    if step["constant"] is not None and (step["tau"] is not None or step["kappa"] is not None):
        rule = "means nothing if step has tau or kappa: set constant alone, or leave it out"
        raise OptionsError("step.constant", rule, step["constant"])


def learn(
    model: Model, inference: Inference, base: Base, events: Matrix, _weights: Vector | None, _own: Vector | None
) -> Step:
    """The worker's part of the method; all events count alike."""
    return step(model, base, events, inference.population)


def step(model: Model, base: Base, events: NDArray[np.float64], population: int | None = None) -> Step:
    """The expected statistics of one minibatch (n, fields) under a base posterior, and its score; n may be 0.

    Expectations under a vague prior say little, and a step by them may lead anywhere. So if the model is a filter, the
    first minibatch is learned as by svb, its events standing for the `population`.
    """
    if not isinstance(model, Latent):
        raise TypeError(f"{model.kind} has no expected statistics")
    if len(events) == 0:
        return Step(model.empty(), 0.0)
    if base.n_events == 0 and isinstance(model, Filter):
        times = (population or len(events)) / len(events)
        statistics, converged = svb.change(model, base, events, np.full(len(events), times))
        return Step(model.scale(statistics, 1 / times), score(base, events), 0 if converged else len(events))
    return Step(model.expected(base.posterior, events), score(base, events))
